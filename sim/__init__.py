"""Fake time: plays directives as discrete events, without a GPU."""
