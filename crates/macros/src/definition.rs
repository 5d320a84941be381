//! The definition of one tool, read from a function or method before code is generated.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, Expr, ExprLit, Ident, Lit, Meta, Path, ReturnType, Safety, Signature};

use crate::diagnostics::Diagnostics;
use crate::options::{Options, check_name};
use crate::param::{self, Param};

/// A function or method with the options of its `#[tool]` attribute.
pub(crate) struct ParsedTool {
    /// Path of the hidden module with the items that generated code uses.
    pub(crate) private: Path,
    /// Name of the struct of the arguments.
    pub(crate) arguments: Ident,
    pub(crate) name: String,
    /// Expression of the description.
    pub(crate) description: TokenStream,
    pub(crate) options: Options,
    pub(crate) params: Vec<Param>,
    /// `#[cfg(..)]` attributes of the function.
    pub(crate) cfgs: Vec<Attribute>,
    pub(crate) is_async: bool,
    /// Location of the return type, for type errors.
    pub(crate) returns: Span,
}

impl ParsedTool {
    /// Reads a function and removes the attributes of the macro from it. Invalid parts are reported to `diagnostics`.
    /// `index` distinguishes the tools of a block.
    pub(crate) fn read(
        attrs: &[Attribute],
        signature: &mut Signature,
        options: Options,
        index: usize,
        diagnostics: &mut Diagnostics,
    ) -> Self {
        check_signature(signature, diagnostics);
        let params = param::read(signature, diagnostics);
        let name = match &options.name {
            Some(name) => name.value(),
            None => {
                let name = signature.ident.unraw().to_string();
                if let Err(error) = check_name(&name, &signature.ident) {
                    diagnostics.push(error);
                }
                name
            }
        };
        let described = options.description.as_ref().map(ToTokens::to_token_stream);
        let description = described.or_else(|| doc_text(attrs).map(|text| quote!(#text)));
        if description.is_none() && !options.is_set("description") {
            let message = format!(
                "a tool needs a description for the model: write a doc comment on `{}`, or set `description = \"..\"`",
                signature.ident
            );
            diagnostics.error(&signature.ident, message);
        }
        let returns = match &signature.output {
            ReturnType::Default => signature.ident.span(),
            ReturnType::Type(_, ty) => ty.span(),
        };
        Self {
            private: private_path(options.krate.as_ref()),
            arguments: format_ident!("__ProvostArguments{index}"),
            name,
            description: description.unwrap_or_default(),
            options,
            params,
            cfgs: cfgs(attrs),
            is_async: signature.asyncness.is_some(),
            returns,
        }
    }
}

/// Returns the path of the hidden module in the crate that `crate = ".."` names, by default `::provost`.
pub(crate) fn private_path(krate: Option<&Path>) -> Path {
    match krate {
        Some(krate) => syn::parse_quote!(#krate::__private),
        None => syn::parse_quote!(::provost::__private),
    }
}

/// Returns the `#[cfg(..)]` attributes of a list.
pub(crate) fn cfgs(attrs: &[Attribute]) -> Vec<Attribute> {
    let conditions = attrs.iter().filter(|attr| attr.path().is_ident("cfg"));
    conditions.cloned().collect()
}

/// Reports an unsafe, extern, generic or variadic function.
fn check_signature(signature: &Signature, diagnostics: &mut Diagnostics) {
    if let Safety::Unsafe(token) = &signature.safety {
        diagnostics.error(token, "a tool must be safe to call: a model calls it");
    }
    if let Some(abi) = &signature.abi {
        diagnostics.error(abi, "a tool is a Rust function: remove `extern`");
    }
    if !signature.generics.params.is_empty() {
        diagnostics.error(
            &signature.generics,
            "a tool cannot be generic: its schema is made once, of concrete types",
        );
    } else if let Some(clause) = &signature.generics.where_clause {
        diagnostics.error(clause, "a tool cannot be generic: remove the `where` clause");
    }
    if let Some(variadic) = &signature.variadic {
        diagnostics.error(variadic, "a tool needs a fixed number of arguments");
    }
}

/// Returns the text of the doc comment. `None` if it is empty.
fn doc_text(attrs: &[Attribute]) -> Option<String> {
    let mut lines = Vec::new();
    for attr in attrs.iter().filter(|attr| attr.path().is_ident("doc")) {
        if let Meta::NameValue(doc) = &attr.meta
            && let Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) = &doc.value
        {
            // A block comment is one attribute with several lines.
            let text = text.value();
            lines.extend(
                text.split('\n')
                    .map(|line| line.strip_prefix(' ').unwrap_or(line).trim_end().to_owned()),
            );
        }
    }
    let text = lines.join("\n").trim().to_owned();
    (!text.is_empty()).then_some(text)
}
