"""One module per noun; each has `ROUTES`, and `app.MODULES` names it."""
