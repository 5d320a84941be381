//! `#[tool]` on an impl block.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{FnArg, ImplItem, ImplItemFn, ItemImpl, Path, Receiver, ReceiverKind, Type};

use crate::definition::{Definition, cfgs, private_path};
use crate::emit;
use crate::faults::Faults;
use crate::options::{Options, Place};

/// Leaves the block as it is, without what is meant for the macro, and adds the methods that give the tools.
pub(crate) fn expand(options: TokenStream, mut block: ItemImpl) -> syn::Result<TokenStream> {
    let mut faults = Faults::default();
    let options = Options::parse(Place::Block, options, &mut faults);
    if let Some((path, _)) = &block.trait_ {
        faults.at(
            path,
            "tools come from a type's own methods: put them in an `impl` block without a trait",
        );
    }
    if !block.generics.params.is_empty() {
        faults.at(
            &block.generics,
            "tools cannot be generic: keep what varies behind `Arc<dyn Trait>` inside the type",
        );
    }
    let mut tools = Vec::new();
    for item in &mut block.items {
        if let ImplItem::Fn(method) = item
            && let Some(definition) = read_method(method, &options, tools.len(), &mut faults)
        {
            // Every argument is a property that the model sees; how many there are is decided there.
            let allow = syn::parse_quote!(#[allow(clippy::too_many_arguments)]);
            method.attrs.push(allow);
            tools.push((method.sig.ident.clone(), definition));
        }
    }
    faults.finish()?;
    if tools.is_empty() {
        return Err(syn::Error::new_spanned(
            &block.self_ty,
            "there is no tool here: add a method that takes `&self`",
        ));
    }
    let private = private_path(options.krate.as_ref());
    Ok(write(&block, &private, &tools))
}

/// The tool that a method is, if it is one.
fn read_method(
    method: &mut ImplItemFn,
    of_block: &Options,
    index: usize,
    faults: &mut Faults,
) -> Option<Definition> {
    let marked = method.attrs.iter().any(|attr| attr.path().is_ident("tool"));
    let mut options = Options::take(Place::Method, &mut method.attrs, faults);
    if options.skip {
        return None;
    }
    options.krate = of_block.krate.clone();
    match method.sig.inputs.first() {
        Some(FnArg::Receiver(receiver)) if is_shared(receiver) => {}
        Some(FnArg::Receiver(receiver)) => {
            faults.at(
                receiver,
                "a tool takes `&self`, for several calls may run at once: keep what changes behind a lock, \
                 or mark the method `#[tool(skip)]`",
            );
        }
        _ if marked => {
            faults.at(
                &method.sig.ident,
                "a tool of an `impl` block takes `&self`: a function without it carries `#[tool]` outside of the block",
            );
        }
        _ => return None,
    }
    Some(Definition::read(&method.attrs, &mut method.sig, options, index, faults))
}

fn is_shared(receiver: &Receiver) -> bool {
    matches!(receiver.kind, ReceiverKind::Reference(_, None, None))
}

fn write(block: &ItemImpl, private: &Path, tools: &[(syn::Ident, Definition)]) -> TokenStream {
    let conditions = cfgs(&block.attrs);
    let self_type: &Type = &block.self_ty;
    let arguments = tools.iter().map(|(_, tool)| emit::arguments(tool));
    let returned = emit::returned(private);
    let pushes = tools.iter().map(|(ident, tool)| {
        let cfgs = &tool.cfgs;
        let spec = emit::spec(tool);
        let callee = quote_spanned!(ident.span()=> Self::#ident);
        let running = emit::running(tool, &callee, &quote!(&*__state,));
        quote! {
            #(#cfgs)*
            {
                let __spec: &#private::ToolSpec = #spec;
                let __state = ::std::sync::Arc::clone(self);
                let __body = move |__permit: #private::Permit, __cx: #private::ToolCx| -> #private::ToolFuture {
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
                /// The methods as tools that share this value.
                pub fn tools(
                    self: &::std::sync::Arc<Self>,
                ) -> ::std::vec::Vec<::std::sync::Arc<dyn #private::Tool>> {
                    let mut __tools: ::std::vec::Vec<::std::sync::Arc<dyn #private::Tool>> =
                        ::std::vec::Vec::new();
                    #(#pushes)*
                    __tools
                }

                /// The methods as tools that own this value together.
                pub fn into_tools(self) -> ::std::vec::Vec<::std::sync::Arc<dyn #private::Tool>> {
                    ::std::sync::Arc::new(self).tools()
                }
            }
        };
    }
}
