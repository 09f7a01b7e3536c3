"""`python -m specmon.tui.commands` is `specmon`."""

from specmon.tui.commands.main import main

raise SystemExit(main())
