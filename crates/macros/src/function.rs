//! `#[tool]` on a function.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Attribute, FnArg, ItemFn};

use crate::definition::Definition;
use crate::emit;
use crate::faults::Faults;
use crate::options::{Options, Place};

/// Writes a unit struct in place of the function, with the function inside.
pub(crate) fn expand(options: TokenStream, mut function: ItemFn) -> syn::Result<TokenStream> {
    let mut faults = Faults::default();
    let options = Options::parse(Place::Function, options, &mut faults);
    let receiver = function.sig.inputs.first();
    if let Some(FnArg::Receiver(receiver)) = receiver {
        faults.at(receiver, "a method becomes a tool through `#[tool]` on its `impl` block");
    }
    let tool = Definition::read(&function.attrs, &mut function.sig, options, 0, &mut faults);
    faults.finish()?;
    Ok(write(&tool, function))
}

fn write(tool: &Definition, function: ItemFn) -> TokenStream {
    let Definition { private, cfgs, .. } = tool;
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
    let returned = emit::returned(private);
    let spec = emit::spec(tool);
    let running = emit::running(tool, &quote!(#ident::call), &TokenStream::new());
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
                /// The function itself: what the tool runs, without the checks of a call by a model.
                // Every argument is a property that the model sees; how many there are is decided there.
                #[allow(clippy::too_many_arguments)]
                #(#kept)*
                #vis #sig #block

                /// The tool, ready to be shared.
                #[allow(dead_code, unreachable_pub)]
                pub fn tool(self) -> ::std::sync::Arc<dyn #private::Tool> {
                    ::std::sync::Arc::new(self)
                }
            }

            impl #private::Tool for #ident {
                fn spec(&self) -> &#private::ToolSpec {
                    #spec
                }

                fn call(&self, __permit: #private::Permit, __cx: #private::ToolCx) -> #private::ToolFuture {
                    #running
                }
            }
        };
    }
}
