"""Built-in formats with messages as each tool publishes them, and each tool's pitfalls."""

import json

import pytest
from sottovoce.config.feed import built_in_formats
from sottovoce.errors import MessageRefused
from sottovoce_home.meters import Arrival
from sottovoce_home.meters.payload import extract_value, parse_number, parse_payload
from sottovoce_home.meters.source import covers

from tests.support.feeds import NOON, Home, example_meter, home


class TestExamples:
    """Each built-in format's own example, which is a recorded or published message of the tool."""

    @pytest.mark.parametrize("name", built_in_formats())
    def test_the_example_is_accepted_as_the_energy_that_it_states(self, name: str) -> None:
        form = built_in_formats()[name]
        source, meter = example_meter(name, replay=form.time is not None)
        reading = 0.0
        for message in form.example.messages:
            payload = message.payload.encode()
            meter.process(Arrival(message.topic, payload, False, NOON, NOON))
            content = parse_payload(payload, source.json)
            values = [value for value in source.values if covers(value.topic, message.topic)]
            reading += sum(parse_number(extract_value(content, value.path)) for value in values) * source.factor
        assert reading == pytest.approx(form.example.reading)
        assert meter.accepted == len(form.example.messages)

    @pytest.mark.parametrize("name", built_in_formats())
    def test_messages_without_the_declared_value_are_refused(self, name: str) -> None:
        _, meter = example_meter(name)
        for message in built_in_formats()[name].example.messages:
            for payload in (b"", b"{}", b"null", b"[]", b"unavailable", b'{"SML":{"Total_in":null}}'):
                with pytest.raises(MessageRefused):
                    meter.process(Arrival(message.topic, payload, False, NOON, NOON))
        assert not meter.accepted

    def test_names_are_those_of_placeholders(self) -> None:
        for form in built_in_formats().values():
            assert set(form.usual) <= set(form.placeholders)
            assert set(form.example.names) == set(form.placeholders)


def publish_readings(home: Home, topic: str, first: float, step: float, form: str = "{:.3f}") -> Home:
    """Return half an hour of counter readings, one per minute, and one more that confirms the last."""
    for minute in range(32):
        home.say(topic, form.format(first + step * minute), after=60)
    return home


class TestDsmrReader:
    LOW, HIGH = "dsmr/reading/electricity_delivered_1", "dsmr/reading/electricity_delivered_2"

    def test_two_tariffs_are_summed_once_both_are_known(self) -> None:
        house = home("dsmr-reader")
        house.say(self.HIGH, "2001.120", after=0)
        for minute in range(32):
            house.say(self.LOW, f"{1050.390 + 0.010 * minute:.3f}", after=0)
            house.say(self.HIGH, f"{2001.120 + 0.005 * (minute > 15):.3f}", after=60)
        assert house.windows == [(0, 305)]
        assert not house.refused

    def test_a_missing_tariff_leaves_every_window_missing(self) -> None:
        assert not publish_readings(home("dsmr-reader"), self.LOW, 1050.0, 0.01).windows

    def test_an_unused_tariff_counts_as_0(self) -> None:
        house = home("dsmr-reader")
        for minute in range(32):
            house.say(self.LOW, f"{1050.390 + 0.010 * minute:.3f}", after=0)
            house.say(self.HIGH, "0.000", after=60)
        assert house.windows == [(0, 300)]

    def test_zeros_of_both_tariffs_after_a_start_of_the_tool_yield_no_energy(self) -> None:
        """A new meter: the tool says 0 for 160 s at the end of a window."""
        house = home("dsmr-reader")
        for second in range(0, 3 * 1800 + 120, 10):
            is_zero = abs(second - 2 * 1800) <= 80
            for topic, kwh in ((self.LOW, 2.4 + second / 10_000), (self.HIGH, 1.2 + second / 30_000)):
                house.say(topic, "0.000" if is_zero else f"{kwh:.3f}", after=5)
        assert [number for number, _ in house.windows] == [1, 2]
        assert all(abs(wh - 240) <= 2 for _, wh in house.windows)
        assert house.meter.restarts == 0

    def test_a_retained_tariff_is_not_summed_with_a_new_one(self) -> None:
        house = home("dsmr-reader").say(self.HIGH, "1990.000", retained=True)
        publish_readings(house, self.LOW, 1050.0, 0.01)
        assert (house.windows, house.refused) == ([], ["retained"])


class TestGlow:
    TOPIC = "glow/C8C9A3000000/SENSOR/electricitymeter"

    def message(self, kwh: float, seconds: float = 0.0) -> str:
        minutes, rest = divmod(int(seconds), 60)
        return json.dumps(
            {
                "electricitymeter": {
                    "timestamp": f"2026-05-28T20:{30 + minutes:02}:{rest:02}Z",
                    "energy": {
                        "export": {"cumulative": 0.000, "units": "kWh"},
                        "import": {
                            "cumulative": kwh,
                            "day": 10.464,
                            "week": 85.675,
                            "month": 512.937,
                            "units": "kWh",
                            "mpan": "1900009999999",
                            "supplier": "Octopus Energy",
                            "price": {"unitrate": 0.30, "standingcharge": 0.4457},
                        },
                    },
                    "power": {"value": 0.623, "units": "kW"},
                }
            }
        )

    def house(self) -> Home:
        return home("glow", names={"device": "C8C9A3000000"})

    def test_the_measurement_time_counts_and_not_the_arrival_time(self) -> None:
        house = self.house()
        for minute in range(30):
            house.now = NOON + 60 * minute + 7  # the display is slow
            house.say(self.TOPIC, self.message(4595.563 + 0.01 * minute, 60 * minute))
        house.say("glow/C8C9A3000000/SENSOR/electricitymeter", self.message(4595.863, 60 * 29 + 59))
        for time in ("21:00:01", "21:01:01"):
            house.say(self.TOPIC, self.message(4595.864).replace("20:30:00", time))
        assert len(house.windows) == 1
        assert house.windows[0][0] == 0
        assert house.windows[0][1] in (300, 301)

    def test_a_repeated_measurement_changes_nothing(self) -> None:
        house = self.house().say(self.TOPIC, self.message(4595.563)).say(self.TOPIC, self.message(4595.563))
        assert house.refused == ["not-newer"]

    def test_the_gas_meter_has_another_topic_and_is_ignored(self) -> None:
        assert not self.house().meter.listens_to("glow/C8C9A3000000/SENSOR/gasmeter")
        assert not self.house().meter.listens_to("glow/C8C9A3000000/STATE")
        assert not self.house().meter.listens_to("glow/AAAAAA000000/SENSOR/electricitymeter"), "the neighbour's display"

    def test_a_retained_measurement_begins_the_count_only_if_it_is_new(self) -> None:
        house = self.house()
        house.now = NOON + 3600
        house.say(self.TOPIC, self.message(4595.5), retained=True)
        assert house.refused == ["retained"]
        house.now = NOON + 120
        house.say(self.TOPIC, self.message(4595.5, 60), retained=True)
        assert house.refused == ["retained"], "a minute-old message counts as live"
        assert house.meter.accepted == 1

    def test_newer_firmware_publishes_the_same_values_elsewhere(self) -> None:
        house = home("glow-energy", names={"serial": "C8C9A3000000"})
        house.say("energy/C8C9A3000000/SENSOR/electricitymeter", self.message(4595.5))
        assert house.meter.accepted == 1

    def test_only_the_declared_values_are_stored(self) -> None:
        house = self.house().say(self.TOPIC, self.message(4595.5)).say(self.TOPIC, "{" + self.message(1.0))
        stored = repr(_everything(house.meter, set()))
        assert "4595" in stored, "the search finds stored values"
        assert "1900009999999" not in stored
        assert "Octopus" not in stored


class TestVzlogger:
    def test_raw_values_are_energies_in_wh(self) -> None:
        house = publish_readings(
            home("vzlogger", names={"channel": "chn0"}), "vzlogger/chn0/raw", 7_654_321.0, 10.0, "{:f}"
        )
        assert house.windows == [(0, 300)]

    def test_a_d0_meter_counts_kwh(self) -> None:
        house = home("vzlogger", names={"channel": "chn1"}, scale=1000)
        assert publish_readings(house, "vzlogger/chn1/raw", 7654.3, 0.01, "{:f}").windows == [(0, 300)]

    def test_the_aggregated_duplicate_is_ignored(self) -> None:
        house = home("vzlogger", names={"channel": "chn0"})
        assert not house.meter.listens_to("vzlogger/chn0/agg")
        assert not house.meter.listens_to("vzlogger/chn0/uuid")

    def test_with_timestamps_a_reading_counts_once(self) -> None:
        house = home("vzlogger-time", names={"channel": "chn0"})
        for minute in range(32):
            message = json.dumps({"timestamp": int((NOON + 60 * minute) * 1000), "value": 7_654_321.0 + 10 * minute})
            house.say("vzlogger/chn0/raw", message, after=1).say("vzlogger/chn0/raw", message, after=59)
        assert house.windows == [(0, 300)]
        assert set(house.refused) == {"not-newer"}


class TestTasmota:
    TOPIC = "tele/tasmota_4F2A1C/SENSOR"

    def plug(self, total: float) -> str:
        return json.dumps(
            {
                "Time": "2026-05-28T22:57:38",
                "ENERGY": {
                    "TotalStartTime": "2020-10-21T22:15:00",
                    "Total": total,
                    "Yesterday": 0.028,
                    "Today": 0.026,
                    "Period": 1,
                    "Power": 5,
                    "ApparentPower": 5,
                    "ReactivePower": 0,
                    "Factor": 1.00,
                    "Voltage": 233,
                    "Current": 0.021,
                },
            }
        )

    def test_a_plug_that_reports_0_after_its_start_yields_no_energy(self) -> None:
        house = home("tasmota", names={"device": "tasmota_4F2A1C"})
        for total in (0.0, 0.0, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 1.0):
            house.say(self.TOPIC, self.plug(total), after=300)
        assert house.refused == ["zero-start"] * 2
        assert house.windows == [], "the first window began before the count was found"
        for total in (1.02, 1.05, 1.08, 1.12, 1.15, 1.18, 1.22, 1.25, 1.28, 1.31):
            house.say(self.TOPIC, self.plug(total), after=300)
        assert house.windows == [(2, 200)]

    def test_an_intermediate_0_is_a_restart_and_no_consumption(self) -> None:
        house = home("tasmota", names={"device": "tasmota_4F2A1C"})
        for total in (3.7, 3.72, 0.0, 0.0, 3.76, 3.78, 3.8, 3.83):
            house.say(self.TOPIC, self.plug(total), after=300)
        assert house.refused == ["fell", "fell"]
        assert house.windows == [(0, 100)]

    def test_other_sensors_on_the_topic_are_ignored(self) -> None:
        house = home("tasmota", names={"device": "tasmota_4F2A1C"})
        house.say(self.TOPIC, '{"Time":"2026-05-28T22:57:38","DS18B20":{"Temperature":21.5},"TempUnit":"C"}')
        assert house.refused == ["no-value"]

    def test_the_smart_meter_script_is_found_by_its_name(self) -> None:
        house = home("tasmota-sml", names={"device": "tasmota_4F2A1C", "sensor": "MT175"})
        for minute in range(32):
            total = round(8234.5678 + 0.01 * minute, 4)
            script = {"Total_in": total, "Power_curr": 612, "Total_out": 0.0, "Meter_id": "0901454d48000089f3c1"}
            house.say(self.TOPIC, json.dumps({"Time": "2026-05-28T22:57:38", "MT175": script}), after=60)
        assert house.windows == [(0, 300)]


class TestZigbee2mqtt:
    TOPIC = "zigbee2mqtt/washing machine"

    def test_a_plug_counts_in_steps_of_10_wh(self) -> None:
        house = home("zigbee2mqtt", names={"device": "washing machine"}, max_power=3.7)
        for minute in range(36):
            energy = round(12.34 + 0.0033 * minute, 2)
            house.say(
                self.TOPIC,
                json.dumps({"current": 0.9, "energy": energy, "linkquality": 105, "power": 198, "state": "ON"}),
                after=60,
            )
        assert house.windows == [(0, 103)], "99 Wh, to within a step"
        assert not house.refused

    def test_a_retained_message_may_be_weeks_old(self) -> None:
        house = home("zigbee2mqtt", names={"device": "washing machine"})
        house.say(self.TOPIC, '{"energy":11.02,"power":0}', retained=True).say(self.TOPIC, '{"energy":12.34}')
        assert house.refused == ["retained"]
        assert house.meter.accepted == 1

    def test_null_is_no_energy(self) -> None:
        house = home("zigbee2mqtt", names={"device": "washing machine"})
        house.say(self.TOPIC, '{"energy":null,"power":null}')
        assert house.refused == ["not-a-number"]

    def test_a_power_clamp_is_integrated(self) -> None:
        house = home("zigbee2mqtt-power", names={"device": "clamp"})
        for _ in range(32):
            house.say("zigbee2mqtt/clamp", '{"power":600,"voltage":231}', after=60)
        assert house.windows == [(0, 300)]

    def test_a_reversed_clamp_yields_nothing(self) -> None:
        house = home("zigbee2mqtt-power", names={"device": "clamp"})
        for _ in range(32):
            house.say("zigbee2mqtt/clamp", '{"power":-600}', after=60)
        assert (house.windows, set(house.refused)) == ([], {"range"})


class TestRtl433:
    TOPIC = "rtl_433/raspberrypi/events"

    def heard(self, number: int, consumption: int) -> str:
        return json.dumps(
            {
                "time": "2026-05-28 22:30:00",
                "model": "ERT-SCM",
                "id": number,
                "physical_tamper": 1,
                "ert_type": 7,
                "encoder_tamper": 0,
                "consumption_data": consumption,
                "mic": "CRC",
            }
        )

    def test_neighbours_meters_are_counted_and_change_nothing(self) -> None:
        house = home("rtl-433", names={"host": "raspberrypi"}, id="41520733")
        for minute in range(32):
            house.say(self.TOPIC, self.heard(41520733, 273_562 + minute), after=10)
            house.say(self.TOPIC, self.heard(41520999, 2_800 + 7 * minute), after=50)
        assert house.windows == [(0, 300)]
        assert house.meter.refused == {"another-meter": 32}

    def test_a_thermometer_on_the_topic_is_not_a_meter(self) -> None:
        house = home("rtl-433", names={"host": "raspberrypi"}, id="41520733")
        house.say(
            self.TOPIC, '{"time":"2026-05-28 22:30:00","model":"Acurite-Tower","channel":"A","temperature_C":4.2}'
        )
        assert house.refused == ["no-value"]

    def test_a_meter_without_its_number_is_refused(self) -> None:
        with pytest.raises(Exception, match="other meters"):
            home("rtl-433", names={"host": "raspberrypi"})


class TestShelly:
    def test_a_first_generation_clamp_counts_in_wh(self) -> None:
        house = home("shelly-gen1", names={"device": "shellyem-B9F355", "channel": "0"})
        for minute in range(36):
            house.say("shellies/shellyem-B9F355/emeter/0/total", f"{120_000 + 10 * minute:.1f}", after=60)
        assert house.windows == [(0, 300)]

    def test_a_second_generation_plug_counts_in_wh(self) -> None:
        house = home("shelly-gen2", names={"device": "shellyplus1pm-1", "channel": "0"}, max_power=3.7)
        for minute in range(36):
            energy = {"total": 11.679 + 10 * minute, "by_minute": [0.0, 0.0, 0.0], "minute_ts": 1654511972}
            status = {"id": 0, "output": True, "apower": 600.0, "voltage": 225.9, "aenergy": energy}
            house.say("shellyplus1pm-1/status/switch:0", json.dumps(status), after=60)
        assert house.windows == [(0, 300)]

    def test_a_first_generation_relay_counts_watt_minutes_from_0_at_each_start(self) -> None:
        house = home("shelly-gen1-relay", names={"device": "shellyplug-s-1", "channel": "0"}, max_power=3.7)
        for minute in range(3 * 30 + 2):
            count = 600 * (1000 + minute if minute < 40 else minute - 40)
            house.say("shellies/shellyplug-s-1/relay/0/energy", str(count), after=60)
        assert house.windows == [(0, 300), (2, 300)], "10 Wh a minute; the plug was started again in the second window"
        assert house.meter.restarts == 1

    def test_three_first_generation_clamps_are_summed(self) -> None:
        house = home("shelly-gen1-3em", names={"device": "shellyem3-1"})
        for minute in range(36):
            for clamp in range(3):
                wh = 1000 * clamp + minute * (5 + clamp)
                house.say(f"shellies/shellyem3-1/emeter/{clamp}/total", f"{wh:.1f}", after=60 * (clamp == 2))
        assert house.windows == [(0, 540)]


class TestTasmota3phase:
    def test_the_totals_of_one_message_are_summed(self) -> None:
        house = home("tasmota-3phase", names={"device": "em"})
        for minute in range(36):
            totals = [round(phase + minute * 0.001 * (phase + 1), 3) for phase in range(3)]
            house.say("tele/em/SENSOR", json.dumps({"ENERGY": {"Total": totals}}), after=60)
        assert house.windows == [(0, 180)]

    def test_one_total_is_no_array(self) -> None:
        house = home("tasmota-3phase", names={"device": "em"}).say("tele/em/SENSOR", '{"ENERGY":{"Total":3.185}}')
        assert house.refused == ["no-value"]
        house = home("tasmota", names={"device": "em"}).say("tele/em/SENSOR", '{"ENERGY":{"Total":[3.185,1,2]}}')
        assert house.refused == ["not-a-number"]


class TestAms:
    """A counter that comes once an hour, with the time of that hour, among powers that come every 10 s."""

    def test_hours_are_windows_of_an_hour(self) -> None:
        house = home("ams", names={"topic": "ams"}, feed={"window": 3600})
        for second in range(0, 5 * 3600, 10):
            data: dict[str, float] = {"P": 1000.0}
            if second % 3600 < 20:  # newer firmware repeats the counter
                data |= {"tPI": 48211.05 + second // 3600, "rtc": NOON - NOON % 3600 + second // 3600 * 3600}
            house.now = NOON - NOON % 3600 + second + 7
            house.say("ams", json.dumps({"t": int(house.now), "data": data}), after=0)
        assert [wh for _, wh in house.windows] == [1000, 1000, 1000]
        assert set(house.refused) == {"no-value", "not-newer"}

    def test_powers_are_integrated(self) -> None:
        house = home("ams-power", names={"topic": "ams"})
        for _ in range(190):
            house.say("ams", '{"id":"84:0D","data":{"P":1320}}', after=10)
        assert house.windows == [(0, 660)]


class TestShellyPro3em:
    """Wh in `emdata`'s `total_act`, as in Home Assistant's `components/shelly/sensor.py`."""

    def test_the_sum_of_three_phases_counts_in_wh(self) -> None:
        house = home("shelly-pro-3em", names={"device": "shellypro3em-1"})
        for minute in range(36):
            status = {"id": 0, "a_total_act_energy": 5.0, "total_act": 1_000.0 + 10 * minute, "total_act_ret": 7.0}
            house.say("shellypro3em-1/status/emdata:0", json.dumps(status), after=60)
        assert house.windows == [(0, 300)]


class TestStatestream:
    TOPIC = "homeassistant/sensor/energy_import/state"

    def test_a_sensor_counts_in_kwh(self) -> None:
        house = home("statestream", names={"base": "homeassistant", "sensor": "energy_import"})
        for minute in range(36):
            house.say(self.TOPIC, f"{1234.5 + 0.01 * minute:.2f}", after=60)
        assert house.windows == [(0, 300)]

    def test_an_unavailable_sensor_is_no_energy(self) -> None:
        house = home("statestream", names={"base": "homeassistant", "sensor": "energy_import"})
        house.say(self.TOPIC, "unavailable")
        assert house.refused == ["not-a-number"]
        assert house.meter.accepted == 0


class TestDeclared:
    """Formats declared in the configuration are equivalent to built-in ones."""

    SHELLY = {  # noqa: RUF012
        "name": "shelly-3em",
        "kind": "gauge",
        "payload": "plain",
        "unit": "W",
        "values": [{"topic": f"shellies/{{device}}/emeter/{phase}/power"} for phase in range(3)],
    }

    def test_three_phases_are_summed(self) -> None:
        house = home("shelly-3em", feed={"formats": [self.SHELLY]}, names={"device": "shellyem3-1"})
        for _ in range(32):
            for phase, watts in enumerate((100, 200, 300)):
                house.say(f"shellies/shellyem3-1/emeter/{phase}/power", str(watts), after=60 * (phase == 2))
        assert house.windows == [(0, 300)]

    def test_a_list_is_indexed(self) -> None:
        listed = {
            "name": "phases", "kind": "gauge", "payload": "json", "unit": "kW",
            "values": [{"topic": "tele/{device}/SENSOR", "path": f"ENERGY.Power.{phase}"} for phase in range(2)],
        }  # fmt: skip
        house = home("phases", feed={"formats": [listed]}, names={"device": "em"})
        for _ in range(32):
            house.say("tele/em/SENSOR", '{"ENERGY":{"Power":[0.2,0.4,99]}}', after=60)
        assert house.windows == [(0, 300)]

    def test_a_filter_that_matches_several_meters_uses_one(self) -> None:
        house = home("vzlogger", names={"channel": "+"})
        house.say("vzlogger/chn0/raw", "7654321").say("vzlogger/chn1/raw", "7654400").say(
            "vzlogger/chn0/raw", "7654322"
        )
        assert house.refused == ["another-topic"]
        assert house.meter.accepted == 2


def _everything(thing: object, seen: set[int]) -> list[object]:
    """Return everything that an object contains, at any depth."""
    if id(thing) in seen:
        return []
    seen.add(id(thing))
    if isinstance(thing, str | bytes | int | float | type(None)):
        return [thing]
    inner: list[object] = []
    if isinstance(thing, dict):
        inner = [*thing.keys(), *thing.values()]
    elif isinstance(thing, list | tuple | set):
        inner = list(thing)
    else:
        slots = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
        inner = [*vars(thing).values()] if hasattr(thing, "__dict__") else []
        inner += [getattr(thing, name) for name in slots if hasattr(thing, name)]
    return [found for item in inner for found in _everything(item, seen)]
