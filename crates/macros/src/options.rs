//! Options inside `#[tool(..)]`.

use std::time::Duration;

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Attribute, Expr, ExprLit, Ident, Lit, LitInt, LitStr, Path, Token};

use crate::diagnostics::Diagnostics;

/// Maximum length of a tool name. It equals the limit in `provost_core::usage::limits`, because macros cannot depend on
/// that crate.
const NAME_CHARS_MAX: usize = 64;

/// Item that carries the options. It determines which options exist.
#[derive(Clone, Copy)]
pub(crate) enum OptionSite {
    Function,
    Method,
    Block,
    Argument,
}

impl OptionSite {
    /// Returns the names of the options that the item takes.
    fn known(self) -> &'static [&'static str] {
        match self {
            Self::Function => &[
                "name",
                "description",
                "timeout",
                "retries",
                "approval",
                "effect",
                "exclusive",
                "crate",
            ],
            Self::Method => &[
                "name",
                "description",
                "timeout",
                "retries",
                "approval",
                "effect",
                "exclusive",
                "skip",
            ],
            Self::Block => &["crate"],
            Self::Argument => &["default"],
        }
    }

    /// Returns the name of the item for error messages.
    fn noun(self) -> &'static str {
        match self {
            Self::Function => "a tool function",
            Self::Method => "a tool method",
            Self::Block => "an `impl` block of tools",
            Self::Argument => "an argument of a tool",
        }
    }
}

/// Condition under which a call needs approval.
pub(crate) enum ApprovalOption {
    Always,
    Never,
    When(Expr),
}

/// Default value of an argument.
pub(crate) enum DefaultValue {
    OfType,
    Value(Expr),
}

/// Options of an item. The [`OptionSite`] determines which ones may be set.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) name: Option<LitStr>,
    pub(crate) description: Option<Expr>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) retries: Option<u32>,
    pub(crate) approval: Option<ApprovalOption>,
    pub(crate) effect: Option<Ident>,
    pub(crate) exclusive: bool,
    pub(crate) skip: bool,
    pub(crate) default: Option<DefaultValue>,
    pub(crate) krate: Option<Path>,
    seen: Vec<Ident>,
}

impl Options {
    /// Parses the inside of `#[tool(..)]`. Errors are reported to `diagnostics`.
    pub(crate) fn parse(
        place: OptionSite,
        tokens: TokenStream,
        diagnostics: &mut Diagnostics,
    ) -> Self {
        let mut options = Self::default();
        if let Err(error) = options.parse_more(place, tokens) {
            diagnostics.push(error);
        }
        options
    }

    /// Removes the `#[tool]` attributes from a list and parses them. Errors are reported to `diagnostics`.
    pub(crate) fn take(
        place: OptionSite,
        attrs: &mut Vec<Attribute>,
        diagnostics: &mut Diagnostics,
    ) -> Self {
        let mut options = Self::default();
        let is_tool = |attr: &mut Attribute| attr.path().is_ident("tool");
        for attr in attrs.extract_if(.., is_tool) {
            let read = match &attr.meta {
                syn::Meta::Path(_) => Ok(()),
                syn::Meta::List(list) => options.parse_more(place, list.tokens.clone()),
                syn::Meta::NameValue(_) => {
                    Err(syn::Error::new_spanned(&attr, "write `#[tool(option = value)]`"))
                }
            };
            if let Err(error) = read {
                diagnostics.push(error);
            }
        }
        options
    }

    /// Returns true if an option was set, even to an invalid value.
    pub(crate) fn is_set(&self, name: &str) -> bool {
        self.seen.iter().any(|seen| seen == name)
    }

    /// Parses a comma-separated list of options and sets them.
    fn parse_more(&mut self, place: OptionSite, tokens: TokenStream) -> syn::Result<()> {
        let parser = |input: ParseStream<'_>| {
            while !input.is_empty() {
                self.parse_one(place, input)?;
                if !input.is_empty() {
                    input.parse::<Token![,]>()?;
                }
            }
            Ok(())
        };
        parser.parse2(tokens)
    }

    /// Parses one option and sets it. Fails if its name is unknown, or if it is set twice.
    fn parse_one(&mut self, place: OptionSite, input: ParseStream<'_>) -> syn::Result<()> {
        let key = input.call(Ident::parse_any)?;
        let name = key.to_string();
        if !place.known().contains(&name.as_str()) {
            let known = place.known().join("`, `");
            let noun = place.noun();
            return Err(syn::Error::new_spanned(
                &key,
                format!("unknown option `{name}`: {noun} takes `{known}`"),
            ));
        }
        if self.seen.contains(&key) {
            let message = format!("option `{name}` is given twice");
            return Err(syn::Error::new_spanned(&key, message));
        }
        self.seen.push(key.clone());
        match name.as_str() {
            "exclusive" | "skip" => {
                if input.peek(Token![=]) {
                    let message = format!("`{name}` takes no value: write it alone or leave it");
                    return Err(syn::Error::new_spanned(&key, message));
                }
                let flag = if name == "skip" { &mut self.skip } else { &mut self.exclusive };
                *flag = true;
            }
            "default" if !input.peek(Token![=]) => self.default = Some(DefaultValue::OfType),
            _ => {
                if !input.peek(Token![=]) {
                    let message = format!("option `{name}` needs a value: `{name} = ..`");
                    return Err(syn::Error::new_spanned(&key, message));
                }
                input.parse::<Token![=]>()?;
                self.parse_value(&name, input.parse()?)?;
            }
        }
        Ok(())
    }

    /// Parses the value of an option and sets it.
    fn parse_value(&mut self, name: &str, value: Expr) -> syn::Result<()> {
        match name {
            "name" => self.name = Some(tool_name(text(&value, "a tool name in quotes")?)?),
            "description" => self.description = Some(description(value)?),
            "timeout" => self.timeout = Some(duration(&value)?),
            "retries" => self.retries = Some(number(&value)?),
            "approval" => self.approval = Some(approval(value)?),
            "effect" => self.effect = Some(effect(&value)?),
            "default" => self.default = Some(DefaultValue::Value(value)),
            _ => self.krate = Some(text(&value, "a path in quotes")?.parse()?),
        }
        Ok(())
    }
}

/// Fails for a tool name that some model vendor does not accept.
pub(crate) fn check_name(name: &str, place: impl ToTokens) -> syn::Result<()> {
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || name.len() > NAME_CHARS_MAX || !name.chars().all(legal) {
        let message = format!(
            "`{name}` is not a valid tool name: use 1 to {NAME_CHARS_MAX} letters, digits, `_` or `-`"
        );
        return Err(syn::Error::new_spanned(place, message));
    }
    Ok(())
}

/// Returns the name if it is a valid tool name.
fn tool_name(name: LitStr) -> syn::Result<LitStr> {
    check_name(&name.value(), &name)?;
    Ok(name)
}

/// Returns the string literal of an expression. Fails for other expressions.
fn text(value: &Expr, expected: &str) -> syn::Result<LitStr> {
    match literal(value) {
        Some(Lit::Str(text)) => Ok(text.clone()),
        _ => Err(syn::Error::new_spanned(value, format!("expected {expected}"))),
    }
}

/// Returns the literal of an expression, without invisible groups. `None` for other expressions.
fn literal(value: &Expr) -> Option<&Lit> {
    match value {
        Expr::Lit(ExprLit { lit, .. }) => Some(lit),
        Expr::Group(group) => literal(&group.expr),
        _ => None,
    }
}

/// Returns the variant of `EffectClass` with this name. Fails if there is none.
fn effect(value: &Expr) -> syn::Result<Ident> {
    let classes = [
        ("pure", "Pure"),
        ("idempotent", "Idempotent"),
        ("keyed", "Keyed"),
        ("provable", "Provable"),
        ("transactional", "Transactional"),
        ("opaque", "Opaque"),
    ];
    let known = classes.map(|(word, _)| format!("\"{word}\"")).join(", ");
    let expected = format!("what a repetition does, one of {known}");
    let text = text(value, &expected)?;
    match classes.iter().find(|(word, _)| *word == text.value()) {
        Some((_, variant)) => Ok(Ident::new(variant, text.span())),
        None => Err(syn::Error::new_spanned(value, format!("expected {expected}"))),
    }
}

/// Returns the expression. Fails for an empty string literal.
fn description(value: Expr) -> syn::Result<Expr> {
    if let Some(Lit::Str(text)) = literal(&value)
        && text.value().trim().is_empty()
    {
        let message = "an empty description tells the model nothing";
        return Err(syn::Error::new_spanned(value, message));
    }
    Ok(value)
}

/// Parses a duration such as `"20s"`. Fails for zero.
fn duration(value: &Expr) -> syn::Result<Duration> {
    let expected = "a duration in quotes, like \"20s\", \"500ms\", \"2m\" or \"1h\"";
    let text = text(value, expected)?;
    let whole = text.value();
    let digits = whole.bytes().take_while(u8::is_ascii_digit).count();
    let (count, unit) = whole.split_at(digits);
    let unit_millis: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => 0,
    };
    let millis = count.parse::<u64>().ok().and_then(|count| count.checked_mul(unit_millis));
    match millis {
        Some(millis @ 1..) => Ok(Duration::from_millis(millis)),
        _ => Err(syn::Error::new_spanned(
            text,
            format!("`{whole}` is not a time limit: write {expected}"),
        )),
    }
}

/// Parses an integer literal.
fn number(value: &Expr) -> syn::Result<u32> {
    let parsed = match literal(value) {
        Some(Lit::Int(number)) => LitInt::base10_parse(number).ok(),
        _ => None,
    };
    parsed.ok_or_else(|| {
        let message = format!("expected a whole number from 0 to {}", u32::MAX);
        syn::Error::new_spanned(value, message)
    })
}

/// Parses `"always"`, `"never"`, a path or a closure.
fn approval(value: Expr) -> syn::Result<ApprovalOption> {
    let known = match (literal(&value), &value) {
        (Some(Lit::Str(text)), _) => match text.value().as_str() {
            "always" => Some(ApprovalOption::Always),
            "never" => Some(ApprovalOption::Never),
            _ => None,
        },
        (None, Expr::Path(_) | Expr::Closure(_)) => Some(ApprovalOption::When(value.clone())),
        _ => None,
    };
    known.ok_or_else(|| {
        syn::Error::new_spanned(
            value,
            "expected \"always\", \"never\", or the name of a function \
             `fn(&serde_json::Value) -> bool`, without quotes",
        )
    })
}
