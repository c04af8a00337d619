"""What a worker did since it started."""

from __future__ import annotations

from dataclasses import dataclass

from queen.durable.events import (
    ApplicationFailure,
    ConfigurationFailure,
    Failure,
    InfrastructureFailure,
    PoisonFailure,
)


@dataclass(slots=True)
class Counters:
    """Seventeen numbers that only grow."""

    orch_starts: int = 0
    orch_completions: int = 0
    orch_failures: int = 0
    orch_application_errors: int = 0
    orch_infrastructure_errors: int = 0
    orch_configuration_errors: int = 0
    orch_poison: int = 0
    activity_success: int = 0
    activity_app_errors: int = 0
    activity_infra_errors: int = 0
    activity_config_errors: int = 0
    activity_poison: int = 0
    orch_dispatcher_items_fetched: int = 0
    worker_dispatcher_items_fetched: int = 0
    orch_continue_as_new: int = 0
    suborchestration_calls: int = 0
    provider_errors: int = 0

    def orchestration_failed(self, details: Failure) -> None:
        """Count a failed instance under the class of its failure."""
        self.orch_failures += 1
        match details:
            case ApplicationFailure():
                self.orch_application_errors += 1
            case InfrastructureFailure():
                self.orch_infrastructure_errors += 1
            case ConfigurationFailure():
                self.orch_configuration_errors += 1
            case PoisonFailure():
                self.orch_poison += 1

    def activity_failed(self, details: Failure) -> None:
        """Count a failed activity under the class of its failure."""
        match details:
            case ApplicationFailure():
                self.activity_app_errors += 1
            case InfrastructureFailure():
                self.activity_infra_errors += 1
            case ConfigurationFailure():
                self.activity_config_errors += 1
            case PoisonFailure():
                self.activity_poison += 1
