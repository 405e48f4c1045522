"""`epibias attack …`: adversarial passages for an index you own, and what is checked of them.

`attack_make` makes passages without a generator, `attack_generate` with one, `attack_check` checks.
"""

from __future__ import annotations

import typer

from epibias.cli import attack_check, attack_generate, attack_make

make = typer.Typer(
    name="make",
    help=(
        "Make labelled adversarial passages, for the red-team evaluation of an index you own: "
        "nothing is made without --i-own-this-index, and nothing is posted."
    ),
    no_args_is_help=True,
    rich_markup_mode=None,
)
make.command("ebi")(attack_generate.ebi)
make.command("poisonedrag")(attack_make.poisonedrag)
make.command("verbatim")(attack_make.verbatim)
make.command("topic-fliprag")(attack_generate.topic_fliprag)
make.command("trigger")(attack_make.trigger)

attack = typer.Typer(
    name="attack",
    help="Adversarial passages for the red-team evaluation of an index you own, and their checks.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
attack.add_typer(make)
attack.command("import")(attack_check.read_ready_made)
attack.command("properties")(attack_check.properties)
attack.command("facts")(attack_check.facts)
