"""Tasks on records, lists and numbers. Makers as in edits.py; the function is not used."""

import json

from .wording import CITIES, NAMES, ask, fence, word


def value(r, pool, kind):
    if kind < 0.35:
        return r.randint(0, 10 ** r.randint(1, 4))
    if kind < 0.5:
        return round(r.uniform(0, 100), r.randint(1, 2))
    if kind < 0.65:
        return r.choice(NAMES)
    if kind < 0.8:
        return r.choice(CITIES)
    if kind < 0.85:
        return r.random() < 0.5
    return word(r, pool)


def make_records(r, pool):
    """Keys, and records whose values of one key are of one kind."""
    keys = list(dict.fromkeys(word(r, pool) for _ in range(r.randint(2, 6))))
    kinds = {key: r.random() for key in keys}
    return keys, [{key: value(r, pool, kinds[key]) for key in keys} for _ in range(r.randint(2, 8))]


def cell(item):
    return str(item).lower() if isinstance(item, bool) else str(item)


def csv_text(keys, records, comma=","):
    return "\n".join([comma.join(keys)] + [comma.join(cell(record[key]) for key in keys) for record in records])


def table_text(keys, records):
    rows = [keys, ["---"] * len(keys)] + [[cell(record[key]) for key in keys] for record in records]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def reformat(r, function, pool):
    """JSON to CSV and back, pretty-printing, compacting."""
    keys, records = make_records(r, pool)
    pretty, compact = json.dumps(records, indent=2), json.dumps(records)
    kind = r.random()
    if kind < 0.35:
        source = pretty if r.random() < 0.6 else compact
        return ask(r, "Convert this JSON to CSV.", fence(source, "json")), fence(csv_text(keys, records), "csv"), None
    if kind < 0.6:
        return ask(r, "Convert this CSV to JSON.", fence(csv_text(keys, records), "csv")), fence(pretty, "json"), None
    if kind < 0.85:
        request = r.choice(["Pretty-print this JSON.", "Reformat this JSON.", "Indent this JSON."])
        return ask(r, request, fence(compact, "json")), fence(pretty, "json"), None
    return ask(r, "Compact this JSON.", fence(pretty, "json")), fence(compact, "json"), None


def rename_key(r, function, pool):
    keys, records = make_records(r, pool)
    old, new = r.choice(keys), word(r, pool) + "_" + word(r, pool)
    whole = records if r.random() < 0.6 else records[:1]
    renamed = [{new if key == old else key: item for key, item in record.items()} for record in whole]
    before, after = (whole, renamed) if len(whole) > 1 else (whole[0], renamed[0])
    return (
        ask(r, f"Rename the key `{old}` to `{new}`.", fence(json.dumps(before, indent=2), "json")),
        fence(json.dumps(after, indent=2), "json"),
        None,
    )


def look_up(r, function, pool):
    keys, records = make_records(r, pool)
    j, key = r.randrange(len(records)), r.choice(keys)
    numbered = {str(i + 1): record for i, record in enumerate(records)}
    return (
        ask(r, f"What is `{key}` in record {j + 1}?", fence(json.dumps(numbered, indent=2), "json")),
        f"`{key}` in record {j + 1} is {json.dumps(records[j][key])}.",
        None,
    )


def table(r, function, pool):
    keys, records = make_records(r, pool)
    kind = r.random()
    source = (
        fence(json.dumps(records), "json")
        if kind < 0.4
        else fence(json.dumps(records, indent=2), "json") if kind < 0.6 else csv_text(keys, records, ", ")
    )
    return ask(r, "Make a Markdown table from these rows.", source), table_text(keys, records), None


def sequence(r, function, pool):
    items = (
        [r.randint(0, 99) for _ in range(r.randint(3, 9))]
        if r.random() < 0.5
        else [word(r, pool) for _ in range(r.randint(3, 8))]
    )
    request = r.choice(["Reverse", "Sort", "Sort in descending order"])
    result = items[::-1] if request == "Reverse" else sorted(items, reverse="descending" in request)
    return f"{request}: {json.dumps(items)}", json.dumps(result), None


def arithmetic(r, function, pool):
    """Sums and differences of up to three digits, products by one digit."""
    operator = r.choice("++--*")
    top = 10 ** r.randint(1, 3) - 1
    a, b = r.randint(0, top), r.randint(0, top)
    if operator == "*":
        a, b = a % 100, b % 10
    result = {"+": a + b, "-": a - b, "*": a * b}[operator]
    said = {"+": "plus", "-": "minus", "*": "times"}[operator]
    request = r.choice(
        [
            f"What is {a} {operator} {b}?",
            f"What is {a} {operator} {b}?",
            f"Calculate {a} {operator} {b}.",
            f"{a} {operator} {b} =",
            f"{a}{operator}{b}",
            f"What is {a} {said} {b}?",
            f"How much is {a} {operator} {b}?",
        ]
    )
    return request, f"{a} {operator} {b} = {result}", None
