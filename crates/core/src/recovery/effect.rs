//! Effect classes: the consequence of repeating a tool call, which determines recovery after a crash.
//!
//! Invariant: an opaque effect with an unknown outcome is never repeated automatically.

use crate::text::string_enum::string_enum;

string_enum! {
    /// The consequence of repeating an effect.
    #[derive(Default)]
    EffectClass, "an effect class" {
        /// No external change: reading or searching.
        Pure = "pure",
        /// A repetition is harmless, such as writing the same bytes to the same place.
        Idempotent = "idempotent",
        /// The target accepts the effect key and detects repetitions.
        Keyed = "keyed",
        /// The tool can determine whether the effect of a key has happened.
        Provable = "provable",
        /// The effect is in the engine's own database and commits together with its step.
        Transactional = "transactional",
        /// Unknown consequence: the default of tools, and the class of a shell.
        #[default]
        Opaque = "opaque",
    }
}

string_enum! {
    /// Handling of an opaque effect with an unknown outcome.
    #[derive(Default)]
    UnknownEffectPolicy, "an answer to an unknown outcome" {
        /// Inform the model, and permit only read-only tools for the rest of the turn.
        #[default]
        ReportToModel = "surface",
        /// Ask a person whether the effect happened.
        AskPerson = "park",
        /// End the run with an error.
        FailRun = "fail",
    }
}

string_enum! {
    /// Recovery action for a step with an unknown outcome.
    EffectRecovery, "a recovery" {
        /// Repeat the call with the same arguments and effect key.
        Retry = "run_again",
        /// Ask the tool whether the effect happened.
        Probe = "probe",
        /// Inform the model that the outcome is unknown and restrict the turn.
        ReportToModel = "surface",
        /// Ask a person whether the effect happened.
        AskPerson = "park",
        /// End the run.
        FailRun = "fail",
    }
}

impl EffectClass {
    /// Returns the recovery action for an effect of this class that was started and not committed.
    pub const fn on_unknown(self, policy: UnknownEffectPolicy) -> EffectRecovery {
        match self {
            // A transactional effect commits with its step, so an uncommitted effect did not happen.
            Self::Pure | Self::Idempotent | Self::Keyed | Self::Transactional => {
                EffectRecovery::Retry
            }
            Self::Provable => EffectRecovery::Probe,
            Self::Opaque => policy.recovery(),
        }
    }

    /// Returns true if a tool of this class may run while an outcome is unknown: it must be read-only or unable to repeat an
    /// effect.
    pub const fn allowed_while_restricted(self) -> bool {
        matches!(self, Self::Pure | Self::Provable)
    }
}

impl UnknownEffectPolicy {
    /// Returns the recovery action of the policy.
    const fn recovery(self) -> EffectRecovery {
        match self {
            Self::ReportToModel => EffectRecovery::ReportToModel,
            Self::AskPerson => EffectRecovery::AskPerson,
            Self::FailRun => EffectRecovery::FailRun,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_recovers_as_the_table_says() {
        use EffectClass as C;
        use EffectRecovery as R;
        use UnknownEffectPolicy as P;
        for policy in P::ALL {
            for class in [C::Pure, C::Idempotent, C::Keyed, C::Transactional] {
                assert_eq!(class.on_unknown(*policy), R::Retry, "{class}");
            }
            assert_eq!(C::Provable.on_unknown(*policy), R::Probe);
        }
        assert_eq!(C::Opaque.on_unknown(P::ReportToModel), R::ReportToModel);
        assert_eq!(C::Opaque.on_unknown(P::AskPerson), R::AskPerson);
        assert_eq!(C::Opaque.on_unknown(P::FailRun), R::FailRun);
    }

    #[test]
    fn g15_an_opaque_effect_is_never_repeated_by_itself() {
        assert_eq!(EffectClass::default(), EffectClass::Opaque);
        assert_eq!(UnknownEffectPolicy::default(), UnknownEffectPolicy::ReportToModel);
        for policy in UnknownEffectPolicy::ALL {
            assert_ne!(EffectClass::Opaque.on_unknown(*policy), EffectRecovery::Retry);
        }
    }

    #[test]
    fn a_restricted_turn_may_look_and_not_act() {
        let allowed: Vec<_> =
            EffectClass::ALL.iter().filter(|class| class.allowed_while_restricted()).collect();
        assert_eq!(allowed, [&EffectClass::Pure, &EffectClass::Provable]);
    }
}
