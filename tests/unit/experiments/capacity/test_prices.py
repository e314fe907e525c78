"""Prices: every row dated and sourced, units told apart, nothing guessed."""

import re

import pytest
import yaml

from experiments.capacity.price_file import parsed, read_prices, shipped
from experiments.capacity.prices import Price, PriceBook
from lobra.errors import BadInput

ROW = {
    "gpu": "H100-80GB",
    "provider": "somebody",
    "amount": 4.0,
    "unit": "node_hour",
    "kind": "on_demand",
    "gpus_per_node": 4,
    "source": "their page",
    "read_on": "2026-11-09",
}


def book(*rows, **more):
    body = {"schema": 1, "kind": "prices", "currency": "USD", "offers": list(rows)} | more
    return parsed(yaml.safe_dump(body).encode(), "own")


def without(key):
    return {name: value for name, value in ROW.items() if name != key}


def test_a_node_of_four_at_four_dollars_an_hour_is_a_dollar_a_gpu_hour():
    assert book(ROW).find("H100-80GB", "somebody").per_gpu_hour == 1.0


def test_a_month_has_730_hours_and_a_discount_is_taken_off():
    monthly = ROW | {"amount": 730.0, "unit": "gpu_month"}

    assert book(monthly).offers[0].per_gpu_hour == 1.0
    assert book(monthly | {"discount": 0.4}).offers[0].per_gpu_hour == pytest.approx(0.6)


def test_whole_nodes_are_billed_and_not_fewer_than_the_provider_lets():
    price = book(ROW | {"minimum_nodes": 3}).offers[0]

    assert [price.billed_gpus(gpus) for gpus in (1, 12, 13)] == [12, 12, 16]


@pytest.mark.parametrize("key", ["source", "read_on"])
def test_a_row_that_does_not_say_where_or_when_is_refused_by_name(key):
    with pytest.raises(BadInput, match=rf"offer 2 \(H100-80GB else on_demand\): {key} is missing"):
        book(ROW, without(key) | {"provider": "else"})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"read_on": "yesterday"}, "read_on is 'yesterday'"),
        ({"read_on": "2026-02-30"}, "read_on is '2026-02-30'"),
        ({"read_on": "2026-13"}, "read_on is '2026-13'"),
        ({"unit": "hour"}, "unit is 'hour'; choose gpu_hour, node_hour, gpu_month"),
        ({"kind": "cheap"}, "kind is 'cheap'"),
        ({"amount": 0}, "amount is 0"),
        ({"amount": -1.0}, "amount is -1"),
        ({"amount": "4.0 $"}, "amount: expected a finite number"),
        ({"discount": 1.0}, "discount is 1.0"),
        ({"gpus_per_node": 0}, "gpus_per_node is 0"),
        ({"gpus_per_node": True}, "gpus_per_node is True"),
        ({"provider": 7}, "provider is 7"),
        ({"per": "hour"}, "there is no key 'per'"),
    ],
)
def test_a_row_that_cannot_be_meant_is_refused(change, message):
    with pytest.raises(BadInput, match=re.escape(message)):
        book(ROW | change)


@pytest.mark.parametrize("read_on", ["2026-11-09", "2026-11"])
def test_a_day_or_a_month_is_a_date(read_on):
    assert book(ROW | {"read_on": read_on}).offers[0].read_on == read_on


def test_a_price_that_is_not_there_refuses_the_question_and_says_what_is_known():
    with pytest.raises(BadInput, match="there is no spot price of H100-80GB at somebody, and none is guessed"):
        book(ROW).find("H100-80GB", "somebody", "spot")
    with pytest.raises(BadInput, match="no on_demand price of B200, and none is guessed; it knows H100-80GB"):
        book(ROW).cheapest("B200")


def test_what_storage_costs_is_unknown_until_a_row_tells_it_and_may_be_free():
    line = {
        "provider": "somebody",
        "what": "egress",
        "amount": 0.0,
        "unit": "gb",
        "source": "page",
        "read_on": "2026-11",
    }
    told = book(ROW, lines=[line])

    assert told.line("somebody", "egress").amount == 0
    assert told.unknown("somebody") == ("storage",)
    with pytest.raises(BadInput, match="what somebody takes for storage is unknown"):
        told.line("somebody", "storage")
    with pytest.raises(BadInput, match="price of egress at somebody: unit is 'gb_month'; choose gb"):
        book(ROW, lines=[line | {"unit": "gb_month"}])


def test_an_offer_that_stands_twice_is_refused_whatever_its_case():
    with pytest.raises(BadInput, match="stands twice"):
        book(ROW, ROW | {"provider": "Somebody"})


def test_the_shipped_book_is_complete_and_keeps_to_the_pages_it_was_read_from():
    (name,) = shipped()
    prices = read_prices(name)

    assert name == "2026-11"
    assert all(each.source and each.read_on.startswith("2026-") for each in (*prices.offers, *prices.lines))
    assert prices.find("H100-80GB", "coreweave").per_gpu_hour == pytest.approx(6.16, abs=0.006)
    assert prices.find("H100-80GB", "coreweave", "spot").per_gpu_hour == pytest.approx(2.46, abs=0.006)
    assert prices.cheapest("H100-80GB").provider == "vast-median"
    dearest = max(each.per_gpu_hour for each in prices.offers if each.gpu == "H100-80GB")
    assert dearest / prices.find("H100-80GB", "runpod-community").per_gpu_hour == pytest.approx(4.57, abs=0.005)


def test_an_own_file_is_read_by_its_path_and_a_missing_one_names_what_ships(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({"schema": 1, "kind": "prices", "currency": "EUR", "offers": [ROW]}))

    assert (read_prices(path).name, read_prices(path).currency) == ("mine", "EUR")
    with pytest.raises(BadInput, match=r"cannot be read \(No such file or directory\); give a path, or one of 2026-11"):
        read_prices(tmp_path / "none.yaml")


def test_a_row_cites_itself():
    price = Price(*ROW.values(), discount=0.25)

    assert price.cited == "4 per node_hour less 25%, read 2026-11-09: their page"
    assert PriceBook("own", "USD", (price,)).find("H100-80GB", "somebody") is price
