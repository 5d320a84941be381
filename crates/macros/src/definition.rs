//! Everything the macro learns about one tool before it writes code.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, Expr, ExprLit, Ident, Lit, Meta, Path, ReturnType, Safety, Signature};

use crate::faults::Faults;
use crate::input::{self, Input};
use crate::options::{Options, check_name};

/// One tool.
pub(crate) struct Definition {
    /// The path of the hidden module that holds what generated code needs.
    pub(crate) private: Path,
    /// The struct of the arguments.
    pub(crate) arguments: Ident,
    pub(crate) name: String,
    /// An expression.
    pub(crate) description: TokenStream,
    pub(crate) options: Options,
    pub(crate) inputs: Vec<Input>,
    /// Conditions under which the tool exists at all.
    pub(crate) cfgs: Vec<Attribute>,
    pub(crate) is_async: bool,
    /// Where to point when the result is of no use.
    pub(crate) returns: Span,
}

impl Definition {
    /// Reads a function, and takes what is meant for the macro out of it. `index` tells the tools of a block apart.
    pub(crate) fn read(
        attrs: &[Attribute],
        signature: &mut Signature,
        options: Options,
        index: usize,
        faults: &mut Faults,
    ) -> Self {
        refuse_forms(signature, faults);
        let inputs = input::read(signature, faults);
        let name = match &options.name {
            Some(name) => name.value(),
            None => {
                let name = signature.ident.unraw().to_string();
                if let Err(error) = check_name(&name, &signature.ident) {
                    faults.add(error);
                }
                name
            }
        };
        let described = options.description.as_ref().map(ToTokens::to_token_stream);
        let description = described.or_else(|| doc_text(attrs).map(|text| quote!(#text)));
        if description.is_none() && !options.gave("description") {
            let sentence = format!(
                "a tool needs a description for the model: write a doc comment on `{}`, or set `description = \"..\"`",
                signature.ident
            );
            faults.at(&signature.ident, sentence);
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
            inputs,
            cfgs: cfgs(attrs),
            is_async: signature.asyncness.is_some(),
            returns,
        }
    }
}

/// The hidden module under the path that `crate = ".."` gives.
pub(crate) fn private_path(krate: Option<&Path>) -> Path {
    match krate {
        Some(krate) => syn::parse_quote!(#krate::__private),
        None => syn::parse_quote!(::provost::__private),
    }
}

/// The `#[cfg(..)]` attributes of a list.
pub(crate) fn cfgs(attrs: &[Attribute]) -> Vec<Attribute> {
    let conditions = attrs.iter().filter(|attr| attr.path().is_ident("cfg"));
    conditions.cloned().collect()
}

fn refuse_forms(signature: &Signature, faults: &mut Faults) {
    if let Safety::Unsafe(token) = &signature.safety {
        faults.at(token, "a tool must be safe to call: a model calls it");
    }
    if let Some(abi) = &signature.abi {
        faults.at(abi, "a tool is a Rust function: remove `extern`");
    }
    if !signature.generics.params.is_empty() {
        faults.at(
            &signature.generics,
            "a tool cannot be generic: its schema is made once, of concrete types",
        );
    } else if let Some(clause) = &signature.generics.where_clause {
        faults.at(clause, "a tool cannot be generic: remove the `where` clause");
    }
    if let Some(variadic) = &signature.variadic {
        faults.at(variadic, "a tool needs a fixed number of arguments");
    }
}

/// The doc comment as the model reads it; `None` if there is nothing to read.
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
