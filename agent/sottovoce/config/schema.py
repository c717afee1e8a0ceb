"""The one typed schema of an agent's configuration. Every key, its unit, its default and its limits are here."""

from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct

_MOST_EPSILON = 500.0
_LARGEST = 1e9  # keeps infinities and NaN out of ordinary numbers

Address = Annotated[
    str, Meta(pattern=r"^(\[[0-9a-fA-F:]+\]|[^:\s]+):[0-9]{1,5}$", description="host:port, for example 10.0.0.7:7400")
]
NodeId = Annotated[str, Meta(pattern=r"^[a-z2-7]{32}$", description="as `sottovoce fleet show` prints it")]


class AgentSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[agent]`: where this device keeps what it must not lose."""

    state: Annotated[Path, Meta(description="directory made by `sottovoce fleet join`")]
    log_level: Literal["debug", "info", "warning", "error"] = "info"


class DataSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[data]`: the local records and everything about them that is public."""

    source: Annotated[str, Meta(description="a data SPEC, for example npz:/var/lib/meter/records.npz")]
    features: Annotated[int, Meta(ge=1, le=1_000_000, description="columns of the feature matrix, public")]
    classes: Annotated[int, Meta(ge=2, le=10_000, description="labels are 0 … classes-1, public")]
    expected_records: Annotated[
        float, Meta(gt=0, le=_LARGEST, description="records a device of this fleet is expected to hold, public")
    ]
    bounds: Annotated[
        tuple[float, float] | None, Meta(description="declared range of every feature; values are clamped to it")
    ] = None
    ranges: Annotated[
        Literal["declared", "training"],
        Meta(description="where the ranges of the features are from; training: from all records, and no ε holds"),
    ] = "declared"
    windows: Annotated[
        tuple[int, int] | None,
        Meta(description="first and last window whose records may be used, both included; public"),
    ] = None
    transform: Annotated[
        str, Meta(min_length=1, max_length=200, description="the declared, per-record feature transform")
    ] = "centred-unit"

    def __post_init__(self) -> None:
        """The bounds are a range."""
        if self.bounds is not None and not (-_LARGEST <= self.bounds[0] < self.bounds[1] <= _LARGEST):
            raise _wrong("bounds", "must be two finite numbers, the lower first")
        if self.windows is not None and not (0 <= self.windows[0] <= self.windows[1] < 2**63):
            raise _wrong("windows", "must be two numbers of windows, from 0, the lower first")


MODELS: dict[str, tuple[str, ...]] = {
    "clipd2p": ("softmax",),
    "push-sum": ("softmax",),
    "golf": ("ridge", "pegasos", "logistic"),
    "gradient-walk": ("pegasos", "logistic"),
}


# Learners whose paper's variant is there beside the sound one.
TO_THE_LETTER = ("golf", "gradient-walk")

# Learners that bound what a record adds, and nothing larger.
RECORD_LEVEL = ("golf", "gradient-walk")

# Publishing record by record, or the mean over records, shows how many there are: they are replaced, not added.
NEIGHBOURING = {
    "clipd2p": "add-remove",
    "push-sum": "add-remove",
    "golf": "replace-one",
    "gradient-walk": "replace-one",
}


class LearnerSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[learner]`: the algorithm and its public schedule."""

    name: Literal["clipd2p", "push-sum", "golf", "gradient-walk"] = "clipd2p"
    fidelity: Literal["sound", "paper"] = "sound"
    model: Annotated[
        Literal["softmax", "pegasos", "logistic", "ridge"] | None,
        Meta(description="the model; without it the learner's own: softmax, golf: ridge, or pegasos to the letter"),
    ] = None
    period: Annotated[float, Meta(ge=0.001, le=86_400, description="seconds between cycles")] = 10.0
    steps: Annotated[
        int, Meta(ge=0, le=1_000_000, description="private gradient releases, one a cycle from the first")
    ] = 48
    clip: Annotated[float, Meta(gt=0, le=_LARGEST, description="per-example L2 clipping threshold C")] = 0.5
    step_size: Annotated[float, Meta(gt=0, le=_LARGEST, description="learning rate of the first step")] = 20.0
    step_decay: Annotated[float, Meta(ge=0, le=1, description="share of the rate lost, linearly, by the last step")] = (
        0.9
    )
    fanout: Annotated[int, Meta(ge=1, le=64, description="peers sent to in one cycle, in rotation")] = 1
    perturbation: Annotated[
        Literal["best", "laplace", "privunit", "krr-privunit"],
        Meta(description="golf: how records are perturbed; best: by the public rule"),
    ] = "best"
    batch: Annotated[int, Meta(ge=1, le=4096, description="golf: published records in one message, at most")] = 128
    capacity: Annotated[
        int, Meta(ge=1, le=1_000_000, description="golf: published records kept, the same for the whole fleet")
    ] = 4096

    budget: Annotated[
        Literal["once", "k-times", "halving"],
        Meta(
            description="gradient-walk: how ε is spread over visits; once: one, k-times: ε/k each, halving: ε/2, ε/4, …"
        ),
    ] = "once"
    visits: Annotated[
        int, Meta(ge=1, le=10_000, description="gradient-walk: visits with a step, for k-times and halving")
    ] = 1
    begins_walk: Annotated[
        bool, Meta(description="gradient-walk: this device begins the walk; true for one device of the fleet")
    ] = False

    def __post_init__(self) -> None:
        """Models belong to learners, some of which are there to the letter."""
        if self.model is not None and self.model not in MODELS[self.name]:
            raise _wrong("model", f"learner {self.name} has the models {', '.join(MODELS[self.name])}")
        if self.fidelity == "paper" and self.name not in TO_THE_LETTER:
            raise _wrong("fidelity", f"learner {self.name} exists in its sound variant only")
        if self.fidelity == "paper" and self.perturbation != "best":
            raise _wrong("perturbation", "to the letter there is one perturbation; leave it out")
        if self.budget == "once" and self.visits != 1:
            raise _wrong("visits", "budget once is one visit; choose k-times or halving for more")

    @property
    def chosen_model(self) -> str:
        """The model, chosen or the learner's own."""
        if self.name == "golf" and self.fidelity == "paper":
            return self.model or "pegasos"
        return self.model or MODELS[self.name][0]


class PrivacySection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[privacy]`: what the ledger must have been made for."""

    epsilon: Annotated[float, Meta(gt=0, description="total ε")] = 2.0
    delta: Annotated[float, Meta(gt=0, lt=1, description="total δ")] = 1e-5
    unit: Annotated[
        Literal["record", "window", "device"],
        Meta(description="what one privacy unit is: a record, a window of records such as a day, or all of the device"),
    ] = "record"
    neighbouring: Annotated[
        Literal["add-remove", "replace-one"] | None,
        Meta(description="without it the learner's own: add-remove, golf: replace-one"),
    ] = None

    def __post_init__(self) -> None:
        """A budget that promises nothing is none; infinity, in a testbed, says so itself."""
        if _MOST_EPSILON < self.epsilon < float("inf"):
            raise _wrong("epsilon", f"above {_MOST_EPSILON:g} nothing is promised; choose less")


class LedgerSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[ledger]`: what must be known of this device's ledger before anything is released."""

    echoes: Annotated[
        int,
        Meta(
            ge=1,
            le=1000,
            description="peers that must have said, since the start, that they know no newer ledger of this device",
        ),
    ] = 1
    alone: Annotated[
        bool, Meta(description="true: release without asking any peer; the operator answers for no copy being restored")
    ] = False
    bytes_per_day: Annotated[
        int,
        Meta(
            ge=2**20,
            le=2**50,
            description="after the ledger has written so much, nothing more is charged on this day, UTC",
        ),
    ] = 2**26


class VaultSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[vault]`: where the vault is, if it is a process of its own. One file serves both processes."""

    socket: Annotated[
        Path | None, Meta(description="Unix socket of `sottovoce vault run`; without it the vault is in the agent")
    ] = None
    directory: Annotated[
        Path | None, Meta(description="the vault's own directory with its ledger, made by `fleet join --vault`")
    ] = None
    agent_user: Annotated[
        str | None, Meta(description="who may ask the vault: a user's name or number; without it its own")
    ] = None
    patience: Annotated[
        float, Meta(gt=0, le=300, description="seconds that the agent waits for a vault that is away, then it ends")
    ] = 120.0

    def __post_init__(self) -> None:
        """A separate vault has all that it needs."""
        if (self.socket is None) != (self.directory is None):
            missing = "socket" if self.socket is None else "directory"
            raise _wrong(missing, "a separate vault needs both socket and directory; without one leave out [vault]")


class PeerSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[[transport.peers]]`: one peer this device sends to."""

    id: NodeId
    address: Address


class MembershipSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[membership]`: how this device finds others."""

    sampling: Annotated[
        Literal["newscast", "static"],
        Meta(description="newscast: peers are sampled, those under [transport] are seeds; static: only they are peers"),
    ] = "newscast"
    period: Annotated[
        float, Meta(ge=0.05, le=86_400, description="seconds between exchanges of views, the same for the whole fleet")
    ] = 60.0
    view_size: Annotated[int, Meta(ge=20, le=100, description="entries of the view, c")] = 30
    warm_size: Annotated[int, Meta(ge=1, le=12, description="sampled peers that the learner sends to at a time")] = 6


class TransportSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[transport]`: where to listen, whom to send to, and how long to wait."""

    listen: Address = "127.0.0.1:7400"
    announce: Annotated[Address | None, Meta(description="where peers reach this device, if not at `listen`")] = None
    peers: tuple[PeerSection, ...] = ()
    timeout: Annotated[
        float, Meta(gt=0, le=_LARGEST, description="seconds a call may take, by gRPC's own deadline")
    ] = 10.0
    backoff: Annotated[
        float, Meta(gt=0, le=_LARGEST, description="first pause after a failed call, seconds, before jitter")
    ] = 1.0
    backoff_max: Annotated[float, Meta(gt=0, le=_LARGEST, description="longest pause after failed calls, seconds")] = (
        300.0
    )

    def __post_init__(self) -> None:
        """Ports exist, and nobody is listed twice."""
        addresses = {f"peers[{i}].address": peer.address for i, peer in enumerate(self.peers)}
        announced = {} if self.announce is None else {"announce": self.announce}
        for key, address in {"listen": self.listen, **announced, **addresses}.items():
            if not 1 <= int(address.rpartition(":")[2]) <= 65_535:
                raise _wrong(key, "the port must lie between 1 and 65535")
        ids = [peer.id for peer in self.peers]
        for i, node in enumerate(ids):
            if node in ids[:i]:
                raise _wrong(f"peers[{i}].id", "this peer is listed twice; keep one of them")
        if self.announce is None and self.listen.rpartition(":")[0] in ("0.0.0.0", "[::]"):  # noqa: S104
            raise _wrong("announce", f"{self.listen} is everywhere and nowhere; say where peers reach this device")
        if self.backoff > self.backoff_max:
            raise _wrong("backoff", "longer than backoff_max; the first pause is the shortest")

    @property
    def announced(self) -> str:
        """Where peers reach this device."""
        return self.announce or self.listen


def _wrong(key: str, what: str) -> ValueError:
    """An error that says where in its table it is, in msgspec's own words."""
    return ValueError(f"{what} - at `$.{key}`")


class AgentConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A whole configuration file."""

    agent: AgentSection
    data: DataSection
    learner: LearnerSection = LearnerSection()
    privacy: PrivacySection = PrivacySection()
    transport: TransportSection = TransportSection()
    membership: MembershipSection = MembershipSection()
    ledger: LedgerSection = LedgerSection()
    vault: VaultSection = VaultSection()

    def __post_init__(self) -> None:
        """A unit is one that the learner bounds, and windows are declared."""
        unit = self.privacy.unit
        if unit != "record" and self.learner.name in RECORD_LEVEL:
            raise _wrong("privacy.unit", f"learner {self.learner.name} bounds what one record adds; choose record")
        if unit == "window" and self.data.windows is None:
            raise _wrong("data.windows", "declare the first and the last window: which have records is private")

    @property
    def neighbouring(self) -> str:
        """What two data sets may differ in: as configured, or the learner's own relation."""
        return self.privacy.neighbouring or NEIGHBOURING[self.learner.name]
