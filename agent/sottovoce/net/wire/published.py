"""The wire format of published records, grouped by owner and perturbation with one credential per group."""

from collections.abc import Iterable

import numpy as np

from sottovoce.errors import MessageRefused
from sottovoce.learning.learners.published_records import Perturbation, PublishedRecord
from sottovoce.net.wire.arrays import MAX_CREDENTIAL_BYTES, MAX_PARAMETERS, MAX_RECORDS
from sottovoce.net.wire.v1 import golf_pb2

_SIGNATURE_BYTES = 64
_LARGEST_VALUE = 2**53
_LARGEST_SLOT = 2**62


def records_to_wire(records: Iterable[PublishedRecord]) -> list[golf_pb2.PublishedRecords]:
    """Group records by owner, perturbation and credential, and encode them."""
    groups: dict[tuple[str, Perturbation, bytes], golf_pb2.PublishedRecords] = {}
    for record in records:
        perturbation = record.perturbation
        group = groups.get((record.owner, perturbation, record.credential))
        if group is None:
            group = golf_pb2.PublishedRecords(owner=record.owner, credential=record.credential)
            group.perturbation.scheme = perturbation.scheme
            group.perturbation.features = perturbation.features
            group.perturbation.classes = perturbation.classes
            if perturbation.epsilon is not None:
                group.perturbation.epsilon = perturbation.epsilon
            groups[record.owner, perturbation, record.credential] = group
        group.records.add(slot=record.slot, values=record.values.tolist(), signature=record.signature)
    return list(groups.values())


def records_from_wire(groups: Iterable[golf_pb2.PublishedRecords]) -> tuple[PublishedRecord, ...]:
    """Decode records into read-only arrays, without verifying their signatures.

    Raises:
        MessageRefused: for `range`, if there are too many records, or a size or a number is out of range.
    """
    records: list[PublishedRecord] = []
    for group in groups:
        perturbation = _perturbation(group.perturbation)
        if len(group.credential) > MAX_CREDENTIAL_BYTES:
            raise MessageRefused("range", "the credential of a published record is too large to be a certificate")
        for message in group.records:
            if len(records) >= MAX_RECORDS:
                raise MessageRefused("range", f"the message contains more than {MAX_RECORDS} published records")
            if len(message.values) > MAX_PARAMETERS or len(message.signature) != _SIGNATURE_BYTES:
                raise MessageRefused("range", "a published record is too large, or its signature has the wrong length")
            values = np.array(message.values, dtype=np.int64)
            if message.slot > _LARGEST_SLOT or ((values < -_LARGEST_VALUE) | (values > _LARGEST_VALUE)).any():
                raise MessageRefused("range", "a published record contains a number that is out of range")
            values.setflags(write=False)
            records.append(
                PublishedRecord(group.owner, message.slot, perturbation, values, group.credential, message.signature)
            )
    return tuple(records)


def _perturbation(message: golf_pb2.Perturbation) -> Perturbation:
    epsilon = message.epsilon if message.HasField("epsilon") else None
    if epsilon is not None and not 0 < epsilon < float("inf"):
        raise MessageRefused("range", "the ε of a published record is not a positive number")
    if not 1 <= message.features <= MAX_PARAMETERS or not 2 <= message.classes <= MAX_PARAMETERS:
        raise MessageRefused("range", "a published record has an invalid number of features or classes")
    return Perturbation(message.scheme, message.features, message.classes, epsilon)
