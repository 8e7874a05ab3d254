"""Shapes of our JSON formats: one pydantic model per object, unknown keys forbidden.

The models check one level at a time. Lists of objects (`ListItem`) are walked by the readers, which continue after a
fault and know the path; long lists of numbers (`Bulk`) go to NumPy (see `bulk`). Both appear in the published JSON
Schema.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler, WithJsonSchema
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from stormwright.model.arrays import MAX_AMOUNT
from stormwright.model.cluster import DEFAULT_CORE_HZ
from stormwright.model.topology import GroupingKind

PROBLEM_SCHEMA = "stormwright-problem/1"
ASSIGNMENT_SCHEMA = "stormwright-assignment/1"
CASE_SCHEMA = "stormwright-case/1"
COSTS_SCHEMA = "stormwright-calibration/1"


@dataclass(frozen=True)
class ListItem:
    """Marker of a field whose objects a reader parses one by one: a list of `model`, or an object with such values."""

    model: type[BaseModel]
    keyed: bool = False

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.any_schema()

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        self.model.model_rebuild()
        item = self.model.__pydantic_core_schema__
        return handler(core_schema.dict_schema(values_schema=item) if self.keyed else core_schema.list_schema(item))


def _rows(*columns: JsonSchemaValue) -> JsonSchemaValue:
    row = {"type": "array", "prefixItems": list(columns), "minItems": len(columns), "maxItems": len(columns)}
    return {"type": "array", "items": row}


_INDEX: JsonSchemaValue = {"type": "integer", "minimum": 0}
_AMOUNT: JsonSchemaValue = {"type": "number", "minimum": 0, "maximum": MAX_AMOUNT}
_FRACTION: JsonSchemaValue = {"type": "number", "minimum": 0, "maximum": 1}
_TEXT: JsonSchemaValue = {"type": "string"}

#: Defaults built by a factory: Pydantic copies literal ones deeply, at ten times the cost.
EMPTY_LIST: Any = Field(default_factory=list, json_schema_extra={"default": []})
EMPTY_OBJECT: Any = Field(default_factory=dict, json_schema_extra={"default": {}})

BulkAmounts = Annotated[Any, WithJsonSchema({"type": "array", "items": _AMOUNT})]
BulkFractions = Annotated[Any, WithJsonSchema({"type": "array", "items": _FRACTION})]
BulkSlots = Annotated[Any, WithJsonSchema({"type": "array", "items": {"type": "integer", "minimum": -1}})]
BulkPairs = Annotated[Any, WithJsonSchema(_rows(_INDEX, _INDEX, _AMOUNT))]
BulkFlows = Annotated[Any, WithJsonSchema(_rows(_INDEX, _TEXT, _TEXT, _AMOUNT))]

Name = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=0, le=2**31 - 1)]
Positive = Annotated[int, Field(ge=1, le=2**31 - 1)]
Port = Annotated[int, Field(ge=0, le=65535)]
Amount = Annotated[float, Field(ge=0, le=MAX_AMOUNT)]
PositiveAmount = Annotated[float, Field(gt=0, le=MAX_AMOUNT)]
#: Sums and products of amounts.
Total = Annotated[float, Field(ge=0)]


class FormatDocument(BaseModel):
    """Base of our formats: no unknown keys, no conversions, no NaN.

    The validator of a model is built with the first document of its kind: most kinds never occur in a process.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)


class SupervisorDocument(FormatDocument):
    """A node. Without `cpu_hz` it has ``cpu.pcore.percent / 100 * core_hz``."""

    id: Name
    host: Name
    ports: list[Port]
    rack: str = "default-rack"
    scheduler_meta: dict[str, str] | None = None
    resources: dict[str, Amount] = EMPTY_OBJECT
    cpu_hz: Total | None = None
    core_hz: PositiveAmount | None = None
    link_bps: PositiveAmount | None = None


class InputDocument(FormatDocument):
    """A subscription of a component; groupings as Storm names them, in lower case."""

    source: Name = Field(alias="from")
    stream: Name = "default"
    grouping: GroupingKind
    fields: list[str] = EMPTY_LIST


class CodeDocument(FormatDocument):
    """Code of a component: its class and Storm's classes within it, outermost first.

    `event_time` is whether timestamps of tuples end its windows, `guarantee` the processing guarantee of a
    ``KafkaSpout``.
    """

    classes: list[Name]
    event_time: bool = False
    guarantee: str = ""


class ComponentDocument(FormatDocument):
    """A spout, a bolt or a system component; `parallelism` is its number of executors.

    `conf` has keys of its own configuration, and `code` its classes: both decide how its topology can be moved, and
    jars of older versions do not send them.
    """

    id: Name
    type: Literal["spout", "bolt", "system"]
    parallelism: Count
    inputs: Annotated[Any, ListItem(InputDocument)] = EMPTY_LIST
    resources: dict[str, Amount] = EMPTY_OBJECT
    shared_memory: list[dict[str, Any]] = EMPTY_LIST
    tags: list[str] = EMPTY_LIST
    conf: dict[str, Any] = EMPTY_OBJECT
    code: CodeDocument | None = None


#: Component index, first start task, number of executors, tasks per executor.
ExecutorRunDocument = Annotated[tuple[Count, Count, Positive, Positive], Field(strict=False)]


class TopologyDocument(FormatDocument):
    """A topology. `executor_runs`, expanded in order, give the order of its executors."""

    id: Name
    name: Name
    num_workers: Positive
    components: Annotated[Any, ListItem(ComponentDocument)]
    executor_runs: list[ExecutorRunDocument]
    owner: str = ""
    launch_time: Annotated[int, Field(ge=0)] = 0
    conf: dict[str, Any] = EMPTY_OBJECT


SlotDocument = Annotated[tuple[Name, Port], Field(strict=False)]


class PlacementDocument(FormatDocument):
    """Placement of a topology's executors: an index into `slots` per executor, -1 for none."""

    slots: list[SlotDocument]
    slot_of_executor: BulkSlots


class LoadDocument(FormatDocument):
    """Load of a topology: `cpu_hz` and `memory_mb` per executor, traffic in tuples/s.

    A pair is ``[source executor, target executor, tuples/s]``, a flow ``[source executor, component id, grouping,
    tuples/s]``. `flow_limits` are the most tuples/s that one executor of a component takes of flows.
    `pair_bytes_per_s` and `flow_bytes_per_s` are the same traffic, in the same order, in bytes/s;
    `forecast_cpu_hz` is the forecast of `cpu_hz`, `live_heap_mb` the measured heap of each executor, `waited` the
    fraction of time for which its thread could run and had no core, `executing` that for which it executed tuples,
    `runs_per_s` how often a second it was given a core, `pending_trees` the mean number of trees of a spout executor
    that were neither acked nor failed.
    """

    cpu_hz: BulkAmounts
    memory_mb: BulkAmounts
    pairs: BulkPairs = EMPTY_LIST
    flows: BulkFlows = EMPTY_LIST
    flow_limits: dict[str, Amount] = {}
    bytes_per_tuple: Amount | None = None
    pair_bytes_per_s: BulkAmounts | None = None
    flow_bytes_per_s: BulkAmounts | None = None
    forecast_cpu_hz: BulkAmounts | None = None
    live_heap_mb: BulkAmounts | None = None
    waited: BulkFractions | None = None
    executing: BulkFractions | None = None
    runs_per_s: BulkAmounts | None = None
    pending_trees: BulkAmounts | None = None


#: A relative error.
Part = Annotated[float, Field(ge=0, lt=1)]
Between = Annotated[tuple[Total, Total], Field(strict=False)]


class InputWorkDocument(FormatDocument):
    """Work of a tuple at a component by one of several input streams: µs of a core, and the fraction of its tuples.

    `identified` is whether the stream's own cost could be identified.
    """

    source: Name
    stream: str
    us: Amount
    part: Amount
    identified: bool = True


class CorrectionDocument(FormatDocument):
    """Correction of one topology: factors of its executors' work and of its messages, the error left in the work.

    `inputs` divide its work, by component, among the input streams. `scale` multiplies all CPU of its trees, as learned
    from times at which its spouts waited for pending trees. `tuple_us` is the CPU of a tuple by component, as fitted to
    all rates.
    """

    work: Amount = 1.0
    messages: Amount = 1.0
    error: Part | None = None
    inputs: dict[str, list[InputWorkDocument]] = EMPTY_OBJECT
    scale: PositiveAmount = 1.0
    tuple_us: dict[str, PositiveAmount] = EMPTY_OBJECT


class FitRangeDocument(FormatDocument):
    """Range in which costs were fitted: utilisation of the CPU of nodes, and trees/s by topology."""

    node_utilisation: Between
    rate_tps: dict[str, Between] = EMPTY_OBJECT


class CostsDocument(FormatDocument):
    """Costs of messages and workers of a cluster, as `stormwright calibrate` and a service write them.

    `costs` are by the names that `docs/predict.md` lists; those left out have their defaults. They are
    in the time of a core of `reference_hz`. `intervals` are their 95 % intervals, `learned` the fraction of the prior
    uncertainty that was removed; both are for people, as are `speeds` (of the cores of supervisors, as multiples of
    that core), and the numbers of `minutes` of the log and windows of `workers` in the fit.
    """

    schema_name: Literal["stormwright-calibration/1"] = Field(alias="schema")
    costs: dict[Name, Amount]
    corrections: dict[str, CorrectionDocument] = EMPTY_OBJECT
    fitted_in: FitRangeDocument | None = None
    intervals: dict[str, Between] = EMPTY_OBJECT
    learned: dict[str, Amount] = EMPTY_OBJECT
    reference_hz: PositiveAmount | None = None
    speeds: dict[str, PositiveAmount] = EMPTY_OBJECT
    minutes: Count = 0
    workers: Count = 0


class ProblemDocument(FormatDocument):
    """Topologies, cluster, load and current placement, at one moment.

    `costs` are those of the cluster, if they were fitted to the load. By the id of a supervisor, `node_cpu_hz` is the
    CPU used on its node, `node_quota_hz` what its control group allows, `node_overhead_hz` the part of it that others
    than workers use. `drained` gives, for blacklisted hosts that
    people have drained, by whom and since when.
    """

    schema_name: Literal["stormwright-problem/1"] = Field(alias="schema")
    supervisors: Annotated[Any, ListItem(SupervisorDocument)]
    topologies: Annotated[Any, ListItem(TopologyDocument)]
    name: str = ""
    conf: dict[str, Any] = EMPTY_OBJECT
    core_hz: PositiveAmount = DEFAULT_CORE_HZ
    blacklisted_hosts: list[str] = EMPTY_LIST
    greylisted_supervisors: list[str] = EMPTY_LIST
    drained: dict[str, str] = EMPTY_OBJECT
    assignments: Annotated[Any, ListItem(PlacementDocument, keyed=True)] = EMPTY_OBJECT
    load: Annotated[Any, ListItem(LoadDocument, keyed=True)] = EMPTY_OBJECT
    node_cpu_hz: dict[str, Amount] = EMPTY_OBJECT
    node_quota_hz: dict[str, Amount] = EMPTY_OBJECT
    node_overhead_hz: dict[str, Amount] = EMPTY_OBJECT
    costs: CostsDocument | None = None


class UnplacedDocument(FormatDocument):
    """An executor without a slot, numbered within its topology, and the counted reasons."""

    topology: Name
    executor: Count
    component: Name
    reasons: list[str]


class CostDocument(FormatDocument):
    """Traffic in tuples/s by how far it goes, and its weighted sum."""

    same_executor: Total
    same_worker: Total
    inter_worker: Total
    inter_node: Total
    inter_rack: Total
    unplaced: Total
    total: Total


class AssignmentDocument(FormatDocument):
    """Result of a scheduler, by topology."""

    schema_name: Literal["stormwright-assignment/1"] = Field(alias="schema")
    assignments: Annotated[Any, ListItem(PlacementDocument, keyed=True)]
    unplaced: Annotated[Any, ListItem(UnplacedDocument)] = EMPTY_LIST
    status: dict[str, str] = EMPTY_OBJECT
    cost: CostDocument | None = None
    figures: dict[str, Any] | None = None
    scheduler: str = ""
    parameters: dict[str, Any] = EMPTY_OBJECT
    seconds: Total = 0.0
    num_workers: dict[str, Positive] = EMPTY_OBJECT
