"""Fresh seeds for a proof that was older than a field of proofs ended in a KeyError, after training."""

import dataclasses

from trainwreck.scenarios.proof.verify import Proof
from trainwreck.scenarios.spec.proofs import recorded


def test_every_recorded_proof_has_the_fields_of_one_made_today():
    fields = {field.name for field in dataclasses.fields(Proof)}
    assert recorded()
    assert not {row["scenario"]: fields - set(row) for row in recorded() if fields - set(row)}
