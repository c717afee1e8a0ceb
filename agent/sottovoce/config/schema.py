"""The one typed schema of an agent's configuration. Every key, its unit, its default and its limits are here."""

from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct

from sottovoce.config.feed import FeedSection, is_broker
from sottovoce.config.identity import IdentitySection
from sottovoce.config.membership import MembershipSection
from sottovoce.config.observe import ObserveSection
from sottovoce.config.transport import TransportSection
from sottovoce.config.wrong import LARGEST, wrong
from sottovoce.model_names import GRADIENT_MODELS, GRAPH_SHARE, REGRESSION_MODEL, has_graph
from sottovoce.registry import ALGORITHMS, DEFAULT, Algorithm, unknown

_MOST_EPSILON = 500.0

BytesPerDay = Annotated[int, Meta(ge=2**20, le=2**50)]


class AgentSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[agent]`: where this device keeps what it must not lose."""

    state: Annotated[Path, Meta(description="directory made by `sottovoce fleet join`")]
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Annotated[
        Literal["text", "json"], Meta(description="text: a line for people; json: a JSON object a line")
    ] = "text"
    bytes_per_day: Annotated[
        BytesPerDay,
        Meta(
            description="so much all files together may be written in a day, UTC; it is spent evenly, by going slower"
        ),
    ] = 2**28
    readers_socket: Annotated[
        Path | None,
        Meta(description="a second socket, where the agent's group may ask for status and model, and for nothing else"),
    ] = None


class DataSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[data]`: the local records and everything about them that is public."""

    source: Annotated[str, Meta(description="a data SPEC, for example npz:/var/lib/meter/records.npz")]
    features: Annotated[int, Meta(ge=1, le=1_000_000, description="columns of the feature matrix, public")]
    classes: Annotated[
        int,
        Meta(ge=1, le=10_000, description="labels are 0 … classes-1; 1: the last column is to be predicted; public"),
    ]
    expected_records: Annotated[
        float, Meta(gt=0, le=LARGEST, description="records a device of this fleet is expected to hold, public")
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
    public: Annotated[
        str | None,
        Meta(description="pdsl: a data SPEC of labelled records that are no secret, by which models are scored"),
    ] = None

    def __post_init__(self) -> None:
        """The bounds are a range, and a feed is of a broker without secrets in its address."""
        kind, _, location = self.source.partition("#")[0].partition(":")
        if kind == "feed" and ("@" in self.source or not is_broker(location)):
            raise wrong(
                "source",
                "after feed: goes mqtt://HOST:PORT of the home's broker and nothing else; a user name goes into "
                "feed.username, and a password into the file feed.password_file",
            )
        if self.bounds is not None and not (-LARGEST <= self.bounds[0] < self.bounds[1] <= LARGEST):
            raise wrong("bounds", "must be two finite numbers, the lower first")
        if self.windows is not None and not (0 <= self.windows[0] <= self.windows[1] < 2**63):
            raise wrong("windows", "must be two numbers of windows, from 0, the lower first")


class LearnerSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[learner]`: the algorithm and its public schedule."""

    name: Annotated[str, Meta(min_length=1, max_length=64, description="the algorithm")] = DEFAULT
    fidelity: Literal["sound", "paper"] = "sound"
    model: Annotated[
        Annotated[str, Meta(min_length=1, max_length=4096)] | None,
        Meta(
            description="the model, or a file that ends in .onnx; without it the learner's own: softmax, golf: ridge, "
            "or pegasos to the letter"
        ),
    ] = None
    threads: Annotated[int, Meta(ge=1, le=2, description="that run a model with a graph")] = 1
    hidden: Annotated[int, Meta(ge=1, le=4096, description="mlp: units of the hidden layer")] = 32
    period: Annotated[float, Meta(ge=0.001, le=86_400, description="seconds between cycles")] = 10.0
    longest_period: Annotated[
        float,
        Meta(ge=0.001, le=86_400, description="to which it grows when there is nothing left to learn and nothing new"),
    ] = 3_600.0
    steps: Annotated[
        int, Meta(ge=0, le=1_000_000, description="private gradient releases, one a cycle from the first")
    ] = 48
    clip: Annotated[
        Annotated[float, Meta(gt=0, le=LARGEST)] | None,
        Meta(description="per-example L2 clipping threshold C; without it the learner's own"),
    ] = None
    step_size: Annotated[
        Annotated[float, Meta(gt=0, le=LARGEST)] | None,
        Meta(description="learning rate of the first step; without it the learner's own"),
    ] = None
    step_decay: Annotated[
        Annotated[float, Meta(ge=0, le=1)] | None,
        Meta(description="share of the rate lost, linearly, by the last step; without it the learner's own"),
    ] = None
    momentum: Annotated[float, Meta(ge=0, lt=1, description="pdsl, dp-cga: share of the last direction kept")] = 0.0
    fanout: Annotated[int, Meta(ge=1, le=64, description="peers sent to in one cycle, in rotation")] = 1

    sampling: Annotated[
        Literal["full", "poisson"] | None,
        Meta(description="which records a gradient is of: all, or a random batch that nobody is told of"),
    ] = None
    batch: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None,
        Meta(description="records in a batch; golf: published records in one message, at most"),
    ] = None
    clipping: Annotated[
        Literal["constant", "decay", "quantile", "automatic"] | None,
        Meta(description="push-sum: how the threshold goes on from `clip`; without it the learner's own"),
    ] = None
    clip_decay: Annotated[
        float, Meta(gt=0, le=1, description="decay: share of the threshold that is left at the last step")
    ] = 0.8
    clip_quantile: Annotated[
        float, Meta(gt=0, lt=1, description="quantile: share of gradients that shall be below the threshold")
    ] = 0.2
    sigma: Annotated[
        Annotated[float, Meta(ge=0, le=LARGEST)] | None,
        Meta(description="to the letter: the noise scale that the paper gives instead of an ε"),
    ] = None
    gradient_bound: Annotated[
        Annotated[float, Meta(gt=0, le=LARGEST)] | None,
        Meta(description="constd2p to the letter: G; without it five runs without privacy say it, marked"),
    ] = None

    controller: Annotated[
        Literal["schedule", "deep-q", "always-global", "always-local"],
        Meta(description="without-replacement: what decides which steps are local and which are global"),
    ] = "schedule"
    release_every: Annotated[
        int, Meta(ge=1, le=4096, description="schedule: every so many steps one is global, and released")
    ] = 1
    passes: Annotated[int, Meta(ge=1, le=1000, description="without-replacement: over the records")] = 1
    regularisation: Annotated[
        float, Meta(ge=0, le=1, description="without-replacement: λ; above 0 the loss is strongly convex")
    ] = 0.0

    shapley: Annotated[
        Literal["exact", "monte-carlo", "cosine", "uniform"],
        Meta(description="pdsl: how neighbours' gradients are weighed; cosine and uniform need no validation records"),
    ] = "exact"
    permutations: Annotated[int, Meta(ge=1, le=100_000, description="pdsl: of monte-carlo")] = 100
    answers: Annotated[
        Annotated[int, Meta(ge=1, le=1000)] | None,
        Meta(description="pdsl, dp-cga: gradients released in one round, one's own included; without it all"),
    ] = None
    gossip_steps: Annotated[int, Meta(ge=1, le=100, description="muffliato: exchanges in a round, K")] = 3
    chebyshev: Annotated[bool, Meta(description="muffliato: accelerated gossip")] = False
    spectral_gap: Annotated[
        Annotated[float, Meta(gt=0, le=1)] | None,
        Meta(description="muffliato: of the fleet's Metropolis matrix, public; needed by chebyshev"),
    ] = None
    local_steps: Annotated[int, Meta(ge=1, le=100, description="dp-net-fleet: steps in a round, K")] = 1
    deadline: Annotated[
        float, Meta(ge=1, le=1000, description="rounds: periods that a round waits for neighbours, then goes on")
    ] = 3.0

    perturbation: Annotated[
        Literal["best", "laplace", "privunit", "krr-privunit"],
        Meta(description="golf: how records are perturbed; best: by the public rule"),
    ] = "best"
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
        bool,
        Meta(description="this device begins the walk, or holds the first shared model; true for one of the fleet"),
    ] = False

    def __post_init__(self) -> None:
        """Models belong to learners, some of which are there to the letter."""
        if self.name not in ALGORITHMS:
            raise wrong("name", f"there is no such learner; {unknown(self.name)}")
        known = self.algorithm
        if self.model is not None and not known.learns(self.model):
            files = ", and files that end in .onnx" if known.models == GRADIENT_MODELS else ""
            raise wrong("model", f"learner {self.name} has the models {', '.join(known.models)}{files}")
        if self.fidelity == "paper" and known.to_the_letter is None:
            raise wrong("fidelity", f"learner {self.name} exists in its sound variant only")
        if self.fidelity == "paper" and self.perturbation != "best":
            raise wrong("perturbation", "to the letter there is one perturbation; leave it out")
        if self.budget == "once" and self.visits != 1:
            raise wrong("visits", "budget once is one visit; choose k-times or halving for more")
        if self.chebyshev and self.spectral_gap is None:
            raise wrong("spectral_gap", "chebyshev follows from it: 1 - |λ₂| of the fleet's Metropolis matrix")
        if known.most_in_a_batch is not None and self.batch_size > known.most_in_a_batch:
            raise wrong("batch", f"a message holds at most {known.most_in_a_batch} published records")
        if self.fidelity == "sound" and self.controller == "deep-q":
            raise wrong("controller", "deep-q tells what nobody pays for; it exists to the letter: fidelity = paper")

    @property
    def algorithm(self) -> Algorithm:
        """What is known of the learner."""
        return ALGORITHMS[self.name]

    @property
    def chosen_model(self) -> str:
        """The model, chosen or the learner's own."""
        own = self.algorithm.models[0]
        return self.model or (self.algorithm.letter_model or own if self.fidelity == "paper" else own)

    @property
    def threshold(self) -> float:
        """The clip, chosen or the learner's own."""
        return self.algorithm.clip if self.clip is None else self.clip

    @property
    def rate(self) -> float:
        """The step size, chosen or the learner's own."""
        if self.step_size is not None:
            return self.step_size
        return self.algorithm.step_size * (GRAPH_SHARE if has_graph(self.chosen_model) else 1.0)

    @property
    def decay(self) -> float:
        """The step decay, chosen or the learner's own."""
        return self.algorithm.step_decay if self.step_decay is None else self.step_decay

    @property
    def batch_size(self) -> int:
        """The batch, chosen or the learner's own."""
        return self.algorithm.batch if self.batch is None else self.batch


class PrivacySection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[privacy]`: what the ledger must have been made for."""

    epsilon: Annotated[float, Meta(gt=0, description="total ε")] = 2.0
    delta: Annotated[float, Meta(gt=0, lt=1, description="total δ")] = 1e-5
    unit: Annotated[
        Literal["record", "window", "device"] | None,
        Meta(
            description="what one privacy unit is: a record, a window of records such as a day, or all of the device; "
            "without it the learner's own: record, average: device; with a meter's feed window"
        ),
    ] = None
    neighbouring: Annotated[
        Literal["add-remove", "replace-one"] | None,
        Meta(description="without it the learner's own: add-remove, golf: replace-one"),
    ] = None
    epsilon_per: Annotated[
        Literal["total", "round"],
        Meta(description="round: to the letter, the ε that the paper states for one round; the total is printed"),
    ] = "total"
    allow_unproved: Annotated[bool, Meta(description="run although no ε is proved")] = False

    def __post_init__(self) -> None:
        """A budget that promises nothing is none; infinity, in a testbed, says so itself."""
        if _MOST_EPSILON < self.epsilon < float("inf"):
            raise wrong("epsilon", f"above {_MOST_EPSILON:g} nothing is promised; choose less")


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
        BytesPerDay,
        Meta(description="so much the ledger may write in a day, UTC; it is spent evenly, and the device goes slower"),
    ] = 2**26


class VaultSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[vault]`: what it may load, and where it is, if it is a process of its own. One file serves both processes."""

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
        float,
        Meta(gt=0, le=300, description="seconds to wait for a vault that is away before it starts anew"),
    ] = 120.0
    graphs: Annotated[
        tuple[Annotated[str, Meta(pattern="^sha256:[0-9a-f]{64}$")], ...],
        Meta(description="sha256:HEX of each .onnx file that learner.model may name, beside the package's own"),
    ] = ()

    def __post_init__(self) -> None:
        """A separate vault has all that it needs."""
        if (self.socket is None) != (self.directory is None):
            missing = "socket" if self.socket is None else "directory"
            raise wrong(missing, "a separate vault needs both socket and directory; without one leave out both")


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
    feed: FeedSection = FeedSection()
    identity: IdentitySection = IdentitySection()
    observe: ObserveSection = ObserveSection()

    def __post_init__(self) -> None:
        """A unit is one that the learner bounds, and windows are declared. A regression is learnt by what can."""
        unit = self.unit
        if unit != "record" and self.learner.algorithm.record_level:
            why = f"learner {self.learner.name} bounds what one record adds"
            if self.privacy.unit is None:  # of a feed, whose records are half hours
                raise wrong(
                    "privacy.unit",
                    f"{why}, and a meter's day is many: choose a learner that bounds a window, such as clipd2p, or say "
                    "record if half an hour of this home is all that is to be hidden",
                )
            raise wrong("privacy.unit", f"{why}; choose record")
        if unit == "window" and self.data.windows is None:
            raise wrong("data.windows", "declare the first and the last window: which have records is private")
        if self.data.classes == 1:
            self._check_regression()

    def _check_regression(self) -> None:
        learner, why = self.learner, "data.classes = 1 is a regression"
        if not learner.algorithm.regression:
            able = ", ".join(name for name, known in ALGORITHMS.items() if known.regression)
            raise wrong("learner.name", f"{why}, which {learner.name} does not learn; choose one of {able}")
        if learner.chosen_model != REGRESSION_MODEL and not has_graph(learner.chosen_model):
            raise wrong("learner.model", f"{why}, which {learner.chosen_model} is not for; choose {REGRESSION_MODEL}")
        if self.data.transform != "none":
            raise wrong("data.transform", f"{why} of the last column, which {self.data.transform} changes; choose none")

    @property
    def unit(self) -> str:
        """What one privacy unit is: as configured, or the learner's own; of a meter's feed a day."""
        own = self.learner.algorithm.unit
        if self.data.source.startswith("feed:") and own == "record":
            own = "window"
        return self.privacy.unit or own

    @property
    def neighbouring(self) -> str:
        """What two data sets may differ in: as configured, or the learner's own relation."""
        learner = self.learner
        own = learner.algorithm.relation_of(learner.fidelity, learner.controller, learner.release_every)
        return self.privacy.neighbouring or own

    @property
    def unproved(self) -> bool:
        """Whether no ε is proved for what the learner does, so that its releases are charged as infinite."""
        learner = self.learner
        return learner.fidelity == "paper" and learner.algorithm.to_the_letter != "proved"
