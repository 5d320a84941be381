//! Generation of the code that functions and methods share.
//!
//! Invariant: every generated path is absolute or starts at the hidden module, and every generated name begins with
//! `__`, because the code is inserted into the user's code.

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::{Expr, ExprLit, Lit, Path};

use crate::definition::ParsedTool;
use crate::options::{ApprovalOption, DefaultValue};
use crate::param::{self, Argument, Param};

/// Generates the struct of the arguments and the functions of their default values.
pub(crate) fn arguments(tool: &ParsedTool) -> TokenStream {
    let ParsedTool { private, arguments, cfgs, .. } = tool;
    let serde_path = path_text(private, "serde");
    let schemars_path = path_text(private, "schemars");
    let sent: Vec<&Argument> = tool
        .params
        .iter()
        .filter_map(|param| match param {
            Param::Argument(argument) => Some(&**argument),
            Param::Context { .. } | Param::Dep(_) => None,
        })
        .collect();
    let mut fields = TokenStream::new();
    let mut defaults = TokenStream::new();
    for (index, argument) in sent.iter().enumerate() {
        let Argument { ident, ty, attrs, .. } = argument;
        let default_name = format_ident!("{arguments}Default{index}").to_string();
        let default = match &argument.default {
            None => TokenStream::new(),
            // Serde treats an `Option` as optional. An explicit default would add `"default": null` to the schema.
            Some(DefaultValue::OfType) if argument.is_option() && attrs.iter().all(is_doc) => {
                TokenStream::new()
            }
            Some(DefaultValue::OfType) => quote!(#[serde(default)]),
            Some(DefaultValue::Value(value)) => {
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

/// Generates an expression for the specification of the tool, which is built once and stored in a static.
pub(crate) fn spec(tool: &ParsedTool) -> TokenStream {
    let ParsedTool { private, arguments, name, description, options, .. } = tool;
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
            settings.extend(quote!(.approval(#private::RequiresApproval::Always)));
        }
        Some(ApprovalOption::Never) => {
            settings.extend(quote!(.approval(#private::RequiresApproval::Never)));
        }
        Some(ApprovalOption::When(rule)) => {
            settings.extend(quote!(.approval(#private::RequiresApproval::when(#rule))));
        }
    }
    for param in &tool.params {
        if let Param::Dep(ty) = param {
            settings.extend(quote!(.needs(#private::DependencyType::of::<#ty>())));
        }
    }
    quote! {{
        static __SPEC: ::std::sync::OnceLock<#private::ToolSpec> = ::std::sync::OnceLock::new();
        __SPEC.get_or_init(|| match #private::ToolSpec::typed::<#arguments>(#name, #description) {
            ::core::result::Result::Ok(__spec) => __spec #settings,
            // Unreachable: the macro has validated the name, and the schema of a struct is an object.
            ::core::result::Result::Err(__error) => ::core::panic!("{}", __error),
        })
    }}
}

/// Generates an expression for the future of a call, from `__permit` and `__cx`. `receiver` precedes the other
/// parameters.
pub(crate) fn call_expression(
    tool: &ParsedTool,
    callee: &TokenStream,
    receiver: &TokenStream,
) -> TokenStream {
    let ParsedTool { arguments, .. } = tool;
    let passed = param::call_arguments(&tool.params);
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

/// Generates the conversion of a return value into an output. It recognizes a `Result` by its type and not by its name,
/// because an alias that was treated as a plain value would report an error as a success.
pub(crate) fn output_conversion(private: &Path) -> TokenStream {
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
        // An inherent method takes precedence over a trait method, so it applies to every `Result`.
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

/// Returns true for a doc comment.
fn is_doc(attr: &syn::Attribute) -> bool {
    attr.path().is_ident("doc")
}

/// Generates a default value. A string literal is converted with `Into`.
fn default_value(value: &Expr) -> TokenStream {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => {
            quote!(::core::convert::Into::into(#text))
        }
        other => other.to_token_stream(),
    }
}

/// Returns the path of an item in the hidden module, as the string that derive attributes expect.
fn path_text(private: &Path, name: &str) -> String {
    let mut text = private.to_token_stream().to_string();
    text.retain(|c| !c.is_whitespace());
    format!("{text}::{name}")
}
