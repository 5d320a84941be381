//! Writes the code that functions and methods share.
//!
//! Invariant: every path in here is absolute or starts at the hidden module, and every name begins with `__`: the code stands
//! among the user's own.

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::{Expr, ExprLit, Lit, Path};

use crate::definition::Definition;
use crate::input::{self, Argument, Input};
use crate::options::{ApprovalOption, Fallback};

/// The struct of the arguments, and the functions that give their defaults.
pub(crate) fn arguments(tool: &Definition) -> TokenStream {
    let Definition { private, arguments, cfgs, .. } = tool;
    let serde_path = path_text(private, "serde");
    let schemars_path = path_text(private, "schemars");
    let sent: Vec<&Argument> = tool
        .inputs
        .iter()
        .filter_map(|input| match input {
            Input::Argument(argument) => Some(&**argument),
            Input::Context { .. } | Input::Dep(_) => None,
        })
        .collect();
    let mut fields = TokenStream::new();
    let mut defaults = TokenStream::new();
    for (index, argument) in sent.iter().enumerate() {
        let Argument { ident, ty, attrs, .. } = argument;
        let default_name = format_ident!("{arguments}Default{index}").to_string();
        let default = match &argument.fallback {
            None => TokenStream::new(),
            // Serde knows that an `Option` may be missing; saying it again would add `"default": null` to the schema.
            Some(Fallback::OfType) if argument.is_option() && attrs.iter().all(is_doc) => {
                TokenStream::new()
            }
            Some(Fallback::OfType) => quote!(#[serde(default)]),
            Some(Fallback::Value(value)) => {
                let function = format_ident!("{default_name}");
                let value = default_value(value);
                defaults.extend(quote! {
                    #(#cfgs)*
                    #[allow(non_snake_case)]
                    fn #function() -> #ty { #value }
                });
                quote!(#[serde(default = #default_name)])
            }
        };
        fields.extend(quote!(#(#attrs)* #default #ident: #ty,));
    }
    quote! {
        #(#cfgs)*
        #[derive(#private::serde::Deserialize, #private::schemars::JsonSchema)]
        #[serde(crate = #serde_path, deny_unknown_fields)]
        #[schemars(crate = #schemars_path)]
        struct #arguments { #fields }
        #defaults
    }
}

/// An expression: the tool's specification, made once and kept in a static.
pub(crate) fn spec(tool: &Definition) -> TokenStream {
    let Definition { private, arguments, name, description, options, .. } = tool;
    let mut settings = TokenStream::new();
    if let Some(timeout) = options.timeout {
        let millis = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        settings.extend(quote!(.timeout(::core::time::Duration::from_millis(#millis))));
    }
    if let Some(retries) = options.retries {
        settings.extend(quote!(.retries(#retries)));
    }
    if let Some(class) = &options.effect {
        settings.extend(quote!(.effect(#private::EffectClass::#class)));
    }
    if options.exclusive {
        settings.extend(quote!(.exclusive()));
    }
    match &options.approval {
        None => {}
        Some(ApprovalOption::Always) => {
            settings.extend(quote!(.approval(#private::Approval::Always)));
        }
        Some(ApprovalOption::Never) => {
            settings.extend(quote!(.approval(#private::Approval::Never)));
        }
        Some(ApprovalOption::When(rule)) => {
            settings.extend(quote!(.approval(#private::Approval::when(#rule))));
        }
    }
    for input in &tool.inputs {
        if let Input::Dep(ty) = input {
            settings.extend(quote!(.needs(#private::DepType::of::<#ty>())));
        }
    }
    quote! {{
        static __SPEC: ::std::sync::OnceLock<#private::ToolSpec> = ::std::sync::OnceLock::new();
        __SPEC.get_or_init(|| match #private::ToolSpec::typed::<#arguments>(#name, #description) {
            ::core::result::Result::Ok(__spec) => __spec #settings,
            // The macro has checked the name, and a struct is always an object.
            ::core::result::Result::Err(__error) => ::core::panic!("{}", __error),
        })
    }}
}

/// An expression: the running call, from `__permit` and `__cx`. `receiver` goes before the other parameters.
pub(crate) fn running(
    tool: &Definition,
    callee: &TokenStream,
    receiver: &TokenStream,
) -> TokenStream {
    let Definition { arguments, .. } = tool;
    let passed = input::passed(&tool.inputs);
    let wait = tool.is_async.then(|| quote!(.await));
    let converted = quote_spanned! {tool.returns=>
        __ProvostReturned::of(&__returned).convert(__returned)
    };
    quote! {
        ::std::boxed::Box::pin(async move {
            #[allow(unused_variables)]
            let __arguments = __permit.parse::<#arguments>()?;
            let __returned = #callee(#receiver #(#passed),*) #wait;
            #converted
        })
    }
}

/// What turns a returned value into an output. A `Result` is known by its type, not by its name: an alias of it that was taken
/// for a plain value would show an error to the model as if the call had worked.
pub(crate) fn returned(private: &Path) -> TokenStream {
    let result = quote! {
        ::core::result::Result<#private::ToolOutput, #private::ToolError>
    };
    quote! {
        struct __ProvostReturned<T>(::core::marker::PhantomData<T>);
        #[allow(dead_code)]
        impl<T> __ProvostReturned<T> {
            fn of(_: &T) -> Self {
                Self(::core::marker::PhantomData)
            }
        }
        // An inherent method wins over one of a trait, so this is taken for every `Result`.
        #[allow(dead_code)]
        impl<T, E> __ProvostReturned<::core::result::Result<T, E>> {
            fn convert(self, returned: ::core::result::Result<T, E>) -> #result
            where
                T: #private::IntoToolOutput,
                E: ::core::convert::Into<#private::ToolError>,
            {
                match returned {
                    ::core::result::Result::Ok(value) => ::core::result::Result::Ok(
                        #private::IntoToolOutput::into_tool_output(value),
                    ),
                    ::core::result::Result::Err(error) => {
                        ::core::result::Result::Err(::core::convert::Into::into(error))
                    }
                }
            }
        }
        #[allow(dead_code)]
        trait __ProvostPlain<T> {
            fn convert(self, returned: T) -> #result
            where
                T: #private::IntoToolOutput;
        }
        impl<T> __ProvostPlain<T> for __ProvostReturned<T> {
            fn convert(self, returned: T) -> #result
            where
                T: #private::IntoToolOutput,
            {
                ::core::result::Result::Ok(#private::IntoToolOutput::into_tool_output(returned))
            }
        }
    }
}

fn is_doc(attr: &syn::Attribute) -> bool {
    attr.path().is_ident("doc")
}

/// Text in quotes stands for whatever is made of text.
fn default_value(value: &Expr) -> TokenStream {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => {
            quote!(::core::convert::Into::into(#text))
        }
        other => other.to_token_stream(),
    }
}

/// A path as the derives want it: a string.
fn path_text(private: &Path, name: &str) -> String {
    let mut text = private.to_token_stream().to_string();
    text.retain(|c| !c.is_whitespace());
    format!("{text}::{name}")
}
