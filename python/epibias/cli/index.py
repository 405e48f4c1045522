"""`epibias index …`: the governed index, joined from its commands.

`index_write` brings pages in and out, `index_promote` moves the pointer, `index_read` looks,
`index_verify` attacks a copy.
"""

from __future__ import annotations

import typer

from epibias.cli import index_promote, index_read, index_verify, index_write

index = typer.Typer(
    name="index",
    help=(
        "A versioned index with authority, golden queries, a gate and logs. --by says who does it: "
        "who that really is must be settled before."
    ),
    no_args_is_help=True,
    rich_markup_mode=None,
)
index.command("init")(index_write.init)
index.command("new-key")(index_write.new_key)
index.command("policy")(index_write.policy)
index.command("stage")(index_write.stage)
index.command("golden")(index_write.golden)
index.command("baseline")(index_write.baseline)
index.command("elevate")(index_write.elevate)
index.command("delete-source")(index_write.delete)
index.command("retire")(index_write.retire_versions)
index.command("check")(index_promote.check)
index.command("promote")(index_promote.promote)
index.command("review")(index_promote.review)
index.command("accept")(index_promote.accept)
index.command("reject")(index_promote.reject)
index.command("rollback")(index_promote.rollback)
index.command("versions")(index_read.versions)
index.command("search")(index_read.search)
index.command("diff")(index_read.diff)
index.command("investigate")(index_read.trace)
index.command("log")(index_read.log)
index.command("integrity")(index_read.integrity)
index.command("verify")(index_verify.verify)
index.command("replay")(index_verify.replay_case)
