//! `#[tool]` on an impl block.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{FnArg, ImplItem, ImplItemFn, ItemImpl, Path, Receiver, ReceiverKind, Type};

use crate::definition::{ParsedTool, cfgs, private_path};
use crate::diagnostics::Diagnostics;
use crate::emit;
use crate::options::{OptionSite, Options};

/// Expands `#[tool]` on an impl block. Removes the attributes of the macro and adds the methods that return the tools.
/// Fails if a method is not a valid tool, or if there is no tool.
pub(crate) fn expand(options: TokenStream, mut block: ItemImpl) -> syn::Result<TokenStream> {
    let mut diagnostics = Diagnostics::default();
    let options = Options::parse(OptionSite::Block, options, &mut diagnostics);
    if let Some((path, _)) = &block.trait_ {
        diagnostics.error(
            path,
            "tools come from a type's own methods: put them in an `impl` block without a trait",
        );
    }
    if !block.generics.params.is_empty() {
        diagnostics.error(
            &block.generics,
            "tools cannot be generic: keep what varies behind `Arc<dyn Trait>` inside the type",
        );
    }
    let mut tools = Vec::new();
    for item in &mut block.items {
        if let ImplItem::Fn(method) = item
            && let Some(definition) = read_method(method, &options, tools.len(), &mut diagnostics)
        {
            // The model sees every argument as a property, so the lint does not apply.
            let allow = syn::parse_quote!(#[allow(clippy::too_many_arguments)]);
            method.attrs.push(allow);
            tools.push((method.sig.ident.clone(), definition));
        }
    }
    diagnostics.finish()?;
    if tools.is_empty() {
        return Err(syn::Error::new_spanned(
            &block.self_ty,
            "there is no tool here: add a method that takes `&self`",
        ));
    }
    let private = private_path(options.krate.as_ref());
    Ok(generate(&block, &private, &tools))
}

/// Reads a method and removes the attributes of the macro from it. Returns `None` for a method with `#[tool(skip)]`
/// and for a function without `self` and without `#[tool]`.
fn read_method(
    method: &mut ImplItemFn,
    of_block: &Options,
    index: usize,
    diagnostics: &mut Diagnostics,
) -> Option<ParsedTool> {
    let marked = method.attrs.iter().any(|attr| attr.path().is_ident("tool"));
    let mut options = Options::take(OptionSite::Method, &mut method.attrs, diagnostics);
    if options.skip {
        return None;
    }
    options.krate = of_block.krate.clone();
    match method.sig.inputs.first() {
        Some(FnArg::Receiver(receiver)) if is_shared_reference(receiver) => {}
        Some(FnArg::Receiver(receiver)) => {
            diagnostics.error(
                receiver,
                "a tool takes `&self`, for several calls may run at once: keep what changes behind a lock, \
                 or mark the method `#[tool(skip)]`",
            );
        }
        _ if marked => {
            diagnostics.error(
                &method.sig.ident,
                "a tool of an `impl` block takes `&self`: a function without it carries `#[tool]` outside of the block",
            );
        }
        _ => return None,
    }
    Some(ParsedTool::read(&method.attrs, &mut method.sig, options, index, diagnostics))
}

/// Returns true for `&self` without a lifetime.
fn is_shared_reference(receiver: &Receiver) -> bool {
    matches!(receiver.kind, ReceiverKind::Reference(_, None, None))
}

/// Generates the block, the structs of the arguments, and the methods `tools` and `into_tools`.
fn generate(block: &ItemImpl, private: &Path, tools: &[(syn::Ident, ParsedTool)]) -> TokenStream {
    let conditions = cfgs(&block.attrs);
    let self_type: &Type = &block.self_ty;
    let arguments = tools.iter().map(|(_, tool)| emit::arguments(tool));
    let returned = emit::output_conversion(private);
    let pushes = tools.iter().map(|(ident, tool)| {
        let cfgs = &tool.cfgs;
        let spec = emit::spec(tool);
        let callee = quote_spanned!(ident.span()=> Self::#ident);
        let running = emit::call_expression(tool, &callee, &quote!(&*__state,));
        quote! {
            #(#cfgs)*
            {
                let __spec: &#private::ToolSpec = #spec;
                let __state = ::std::sync::Arc::clone(self);
                let __body = move |__permit: #private::Permit, __cx: #private::ToolContext| -> #private::ToolFuture {
                    let __state = ::std::sync::Arc::clone(&__state);
                    #running
                };
                let __tool = #private::FnTool::new(::core::clone::Clone::clone(__spec), __body);
                __tools.push(::std::sync::Arc::new(__tool));
            }
        }
    });
    quote! {
        #block

        #(#conditions)*
        const _: () = {
            #(#arguments)*
            #returned

            #[allow(dead_code, unreachable_pub)]
            impl #self_type {
                /// Returns the methods as tools that share this value.
                pub fn tools(
                    self: &::std::sync::Arc<Self>,
                ) -> ::std::vec::Vec<::std::sync::Arc<dyn #private::Tool>> {
                    let mut __tools: ::std::vec::Vec<::std::sync::Arc<dyn #private::Tool>> =
                        ::std::vec::Vec::new();
                    #(#pushes)*
                    __tools
                }

                /// Returns the methods as tools that own this value together.
                pub fn into_tools(self) -> ::std::vec::Vec<::std::sync::Arc<dyn #private::Tool>> {
                    ::std::sync::Arc::new(self).tools()
                }
            }
        };
    }
}
