//! `#[tool]` on a function.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Attribute, FnArg, ItemFn};

use crate::definition::ParsedTool;
use crate::diagnostics::Diagnostics;
use crate::emit;
use crate::options::{OptionSite, Options};

/// Expands `#[tool]` on a function. Replaces it by a unit struct of the same name that implements `Tool` and contains
/// the function as `call`.
pub(crate) fn expand(options: TokenStream, mut function: ItemFn) -> syn::Result<TokenStream> {
    let mut diagnostics = Diagnostics::default();
    let options = Options::parse(OptionSite::Function, options, &mut diagnostics);
    let receiver = function.sig.inputs.first();
    if let Some(FnArg::Receiver(receiver)) = receiver {
        diagnostics
            .error(receiver, "a method becomes a tool through `#[tool]` on its `impl` block");
    }
    let tool = ParsedTool::read(&function.attrs, &mut function.sig, options, 0, &mut diagnostics);
    diagnostics.finish()?;
    Ok(generate(&tool, function))
}

/// Generates the unit struct, its arguments and its implementation of `Tool`.
fn generate(tool: &ParsedTool, function: ItemFn) -> TokenStream {
    let ParsedTool { private, cfgs, .. } = tool;
    let ItemFn { attrs, vis, mut sig, block, .. } = function;
    let ident = std::mem::replace(&mut sig.ident, format_ident!("call"));
    let is_doc = |attr: &&Attribute| attr.path().is_ident("doc");
    let mut docs: Vec<Attribute> = attrs.iter().filter(is_doc).cloned().collect();
    if docs.is_empty() {
        let summary = format!("The tool `{}`.", tool.name);
        docs.push(syn::parse_quote!(#[doc = #summary]));
    }
    let kept = attrs.iter().filter(|attr| !is_doc(attr));
    let arguments = emit::arguments(tool);
    let returned = emit::output_conversion(private);
    let spec = emit::spec(tool);
    let running = emit::call_expression(tool, &quote!(#ident::call), &TokenStream::new());
    quote! {
        #(#docs)*
        #(#cfgs)*
        #[allow(non_camel_case_types)]
        #[derive(::core::clone::Clone, ::core::marker::Copy, ::core::fmt::Debug)]
        #vis struct #ident;

        #(#cfgs)*
        const _: () = {
            #arguments
            #returned

            impl #ident {
                /// Calls the function directly, without the checks of a tool call.
                // The model sees every argument as a property, so the lint does not apply.
                #[allow(clippy::too_many_arguments)]
                #(#kept)*
                #vis #sig #block

                /// Returns the tool as a shared trait object.
                #[allow(dead_code, unreachable_pub)]
                pub fn tool(self) -> ::std::sync::Arc<dyn #private::Tool> {
                    ::std::sync::Arc::new(self)
                }
            }

            impl #private::Tool for #ident {
                fn spec(&self) -> &#private::ToolSpec {
                    #spec
                }

                fn call(&self, __permit: #private::Permit, __cx: #private::ToolContext) -> #private::ToolFuture {
                    #running
                }
            }
        };
    }
}
