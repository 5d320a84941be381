//! The parameters of a tool function: what the run fills in and what the model sends.

use proc_macro2::{TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::{
    Attribute, FnArg, GenericArgument, Ident, Pat, PatIdent, PatType, PathArguments, Signature,
    Type, TypePath,
};

use crate::faults::Faults;
use crate::options::{Fallback, Options, Place};

/// One parameter.
pub(crate) enum Input {
    /// `&ToolCx` or `ToolCx`.
    Context { by_reference: bool },
    /// `Dep<T>`, with its `T`.
    Dep(Box<Type>),
    /// What the model sends.
    Argument(Box<Argument>),
}

/// What the model sends under one name.
pub(crate) struct Argument {
    pub(crate) ident: Ident,
    pub(crate) ty: Type,
    /// Doc comments and attributes for the derives.
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) fallback: Option<Fallback>,
}

/// Reads the parameters after `self`, and takes what is meant for the macro out of the signature.
pub(crate) fn read(signature: &mut Signature, faults: &mut Faults) -> Vec<Input> {
    let mut inputs = Vec::new();
    for parameter in &mut signature.inputs {
        let FnArg::Typed(parameter) = parameter else {
            continue;
        };
        let Some(input) = read_one(parameter, faults) else {
            continue;
        };
        let another = inputs.iter().any(|other| matches!(other, Input::Context { .. }));
        if another && matches!(input, Input::Context { .. }) {
            faults.at(&parameter.ty, "a tool takes one `ToolCx`: remove this one");
        }
        inputs.push(input);
    }
    inputs
}

fn read_one(parameter: &mut PatType, faults: &mut Faults) -> Option<Input> {
    let options = Options::take(Place::Argument, &mut parameter.attrs, faults);
    let for_field = |attr: &mut Attribute| {
        ["doc", "serde", "schemars"].iter().any(|name| attr.path().is_ident(name))
    };
    let attrs: Vec<Attribute> = parameter.attrs.extract_if(.., for_field).collect();
    let ty = bare(&parameter.ty);
    let filled_in = if let Type::Reference(reference) = ty
        && reference.mutability.is_none()
        && is_named(&reference.elem, "ToolCx")
    {
        Some(Input::Context { by_reference: true })
    } else if is_named(ty, "ToolCx") {
        Some(Input::Context { by_reference: false })
    } else {
        dep(ty).map(|ty| Input::Dep(Box::new(ty)))
    };
    if let Some(input) = filled_in {
        if options.default.is_some() {
            faults.at(ty, "this comes from the run, so it has no default");
        }
        return Some(input);
    }
    if let Some(sentence) = refusal(ty) {
        faults.at(ty, sentence);
        return None;
    }
    let Pat::Ident(PatIdent { by_ref: None, ident, subpat: None, .. }) = &*parameter.pat else {
        faults.at(
            &parameter.pat,
            "an argument of a tool needs a plain name: the model sends it under that name",
        );
        return None;
    };
    Some(Input::Argument(Box::new(Argument {
        ident: ident.clone(),
        ty: ty.clone(),
        attrs,
        fallback: options.default,
    })))
}

impl Argument {
    /// True if the model may leave it out even without a default.
    pub(crate) fn is_option(&self) -> bool {
        is_named(&self.ty, "Option")
    }
}

/// Why a type cannot be an argument, as a sentence.
fn refusal(ty: &Type) -> Option<String> {
    if let Type::Reference(reference) = ty {
        let target = bare(&reference.elem);
        return Some(match target {
            _ if is_named(target, "ToolCx") => "take `&ToolCx`: it cannot be changed".to_owned(),
            _ if is_named(target, "str") => "take `String`: a tool owns its arguments".to_owned(),
            Type::Slice(slice) => {
                let element = slice.elem.to_token_stream();
                format!("take `Vec<{element}>`: a tool owns its arguments")
            }
            _ => "take the argument by value: a tool owns its arguments, only `&ToolCx` is a reference"
                .to_owned(),
        });
    }
    if mentions(ty.to_token_stream(), "impl") {
        return Some("a tool needs concrete argument types: `impl Trait` has no schema".to_owned());
    }
    if mentions(ty.to_token_stream(), "Self") {
        return Some("write the type's name: `Self` is not known to the schema".to_owned());
    }
    None
}

fn mentions(tokens: TokenStream, word: &str) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == word,
        TokenTree::Group(group) => mentions(group.stream(), word),
        _ => false,
    })
}

/// The type without invisible groups and parentheses.
fn bare(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => bare(&group.elem),
        Type::Paren(paren) => bare(&paren.elem),
        other => other,
    }
}

fn is_named(ty: &Type, name: &str) -> bool {
    match bare(ty) {
        Type::Path(TypePath { path, .. }) => {
            path.segments.last().is_some_and(|segment| segment.ident == name)
        }
        _ => false,
    }
}

fn dep(ty: &Type) -> Option<Type> {
    let Type::Path(TypePath { path, .. }) = ty else {
        return None;
    };
    let segment = path.segments.last().filter(|s| s.ident == "Dep")?;
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else {
        return None;
    };
    match arguments.args.first() {
        Some(GenericArgument::Type(ty)) if arguments.args.len() == 1 => Some(ty.clone()),
        _ => None,
    }
}

/// How the function is given its parameters, in order.
pub(crate) fn passed(inputs: &[Input]) -> Vec<TokenStream> {
    let pass = |input: &Input| match input {
        Input::Context { by_reference: true } => quote!(&__cx),
        Input::Context { by_reference: false } => quote!(::core::clone::Clone::clone(&__cx)),
        Input::Dep(ty) => quote!(__cx.dep::<#ty>()?),
        Input::Argument(argument) => {
            let ident = &argument.ident;
            quote!(__arguments.#ident)
        }
    };
    inputs.iter().map(pass).collect()
}
