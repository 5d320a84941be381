//! Parameters of a tool function: those that the run fills in, and the arguments that the model sends.

use proc_macro2::{TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::{
    Attribute, FnArg, GenericArgument, Ident, Pat, PatIdent, PatType, PathArguments, Signature,
    Type, TypePath,
};

use crate::diagnostics::Diagnostics;
use crate::options::{DefaultValue, OptionSite, Options};

/// One parameter.
pub(crate) enum Param {
    /// `&ToolContext` or `ToolContext`.
    Context { by_reference: bool },
    /// `Dep<T>`, with its type `T`.
    Dep(Box<Type>),
    /// An argument that the model sends.
    Argument(Box<Argument>),
}

/// An argument that the model sends.
pub(crate) struct Argument {
    pub(crate) ident: Ident,
    pub(crate) ty: Type,
    /// Doc comments and attributes for the derives.
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) default: Option<DefaultValue>,
}

/// Reads the parameters after `self` and removes the attributes of the macro from the signature.
pub(crate) fn read(signature: &mut Signature, diagnostics: &mut Diagnostics) -> Vec<Param> {
    let mut params = Vec::new();
    for parameter in &mut signature.inputs {
        let FnArg::Typed(parameter) = parameter else {
            continue;
        };
        let Some(param) = read_one(parameter, diagnostics) else {
            continue;
        };
        let another = params.iter().any(|other| matches!(other, Param::Context { .. }));
        if another && matches!(param, Param::Context { .. }) {
            diagnostics.error(&parameter.ty, "a tool takes one `ToolContext`: remove this one");
        }
        params.push(param);
    }
    params
}

/// Reads one parameter and removes the attributes of the macro. Returns `None` after an error was reported.
fn read_one(parameter: &mut PatType, diagnostics: &mut Diagnostics) -> Option<Param> {
    let options = Options::take(OptionSite::Argument, &mut parameter.attrs, diagnostics);
    let for_field = |attr: &mut Attribute| {
        ["doc", "serde", "schemars"].iter().any(|name| attr.path().is_ident(name))
    };
    let attrs: Vec<Attribute> = parameter.attrs.extract_if(.., for_field).collect();
    let ty = unwrap_type(&parameter.ty);
    let filled_in = if let Type::Reference(reference) = ty
        && reference.mutability.is_none()
        && is_named(&reference.elem, "ToolContext")
    {
        Some(Param::Context { by_reference: true })
    } else if is_named(ty, "ToolContext") {
        Some(Param::Context { by_reference: false })
    } else {
        dep(ty).map(|ty| Param::Dep(Box::new(ty)))
    };
    if let Some(input) = filled_in {
        if options.default.is_some() {
            diagnostics.error(ty, "this comes from the run, so it has no default");
        }
        return Some(input);
    }
    if let Some(message) = type_error(ty) {
        diagnostics.error(ty, message);
        return None;
    }
    let Pat::Ident(PatIdent { by_ref: None, ident, subpat: None, .. }) = &*parameter.pat else {
        diagnostics.error(
            &parameter.pat,
            "an argument of a tool needs a plain name: the model sends it under that name",
        );
        return None;
    };
    Some(Param::Argument(Box::new(Argument {
        ident: ident.clone(),
        ty: ty.clone(),
        attrs,
        default: options.default,
    })))
}

impl Argument {
    /// Returns true if the type of the argument is `Option`.
    pub(crate) fn is_option(&self) -> bool {
        is_named(&self.ty, "Option")
    }
}

/// Returns the reason why a type cannot be an argument. `None` if it can.
fn type_error(ty: &Type) -> Option<String> {
    if let Type::Reference(reference) = ty {
        let target = unwrap_type(&reference.elem);
        return Some(match target {
            _ if is_named(target, "ToolContext") => "take `&ToolContext`: it cannot be changed".to_owned(),
            _ if is_named(target, "str") => "take `String`: a tool owns its arguments".to_owned(),
            Type::Slice(slice) => {
                let element = slice.elem.to_token_stream();
                format!("take `Vec<{element}>`: a tool owns its arguments")
            }
            _ => "take the argument by value: a tool owns its arguments, only `&ToolContext` is a reference"
                .to_owned(),
        });
    }
    if contains_ident(ty.to_token_stream(), "impl") {
        return Some("a tool needs concrete argument types: `impl Trait` has no schema".to_owned());
    }
    if contains_ident(ty.to_token_stream(), "Self") {
        return Some("write the type's name: `Self` is not known to the schema".to_owned());
    }
    None
}

/// Returns true if the tokens contain the identifier, also inside groups.
fn contains_ident(tokens: TokenStream, word: &str) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == word,
        TokenTree::Group(group) => contains_ident(group.stream(), word),
        _ => false,
    })
}

/// Returns the type without invisible groups and parentheses.
fn unwrap_type(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => unwrap_type(&group.elem),
        Type::Paren(paren) => unwrap_type(&paren.elem),
        other => other,
    }
}

/// Returns true for a path type whose last segment has this name.
fn is_named(ty: &Type, name: &str) -> bool {
    match unwrap_type(ty) {
        Type::Path(TypePath { path, .. }) => {
            path.segments.last().is_some_and(|segment| segment.ident == name)
        }
        _ => false,
    }
}

/// Returns `T` for `Dep<T>`. `None` for other types.
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

/// Generates the arguments of the function call, in order.
pub(crate) fn call_arguments(params: &[Param]) -> Vec<TokenStream> {
    let pass = |input: &Param| match input {
        Param::Context { by_reference: true } => quote!(&__cx),
        Param::Context { by_reference: false } => quote!(::core::clone::Clone::clone(&__cx)),
        Param::Dep(ty) => quote!(__cx.dep::<#ty>()?),
        Param::Argument(argument) => {
            let ident = &argument.ident;
            quote!(__arguments.#ident)
        }
    };
    params.iter().map(pass).collect()
}
