"""Chat templates as Python renders them: the definition of right for src/text/jinja*.c.

The environment is the one that apply_chat_template of the transformers library makes, except that
constants are not folded and that filters which give generators compute them at once: both only move
errors to another place, see docs/templates.md. Needs python3-jinja2 3.1.
"""
import datetime
import json
import warnings

import jinja2
import jinja2.ext
import jinja2.sandbox

NOW = 1700000000  # what strftime_now shows

warnings.simplefilter("ignore")  # unknown escapes in strings


class Generation(jinja2.ext.Extension):
    """{% generation %}: the assistant's part; its contents, with variables of its own."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        call = self.call_method("_contents")
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

    def _contents(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def strftime_now(form):
    return datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc).strftime(form)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


def at_once(function):
    """The same filter, but what it generates is computed now."""

    def wrapper(*args, **kwargs):
        items = list(function(*args, **kwargs))
        return (item for item in items)

    for name, value in vars(function).items():  # jinja2 keeps its marks there
        setattr(wrapper, name, value)
    return wrapper


def environment(exact=False):
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, optimized=exact,
        extensions=[jinja2.ext.loopcontrols, Generation])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = strftime_now
    if not exact:
        for name in "map select reject selectattr rejectattr items batch slice unique".split():
            env.filters[name] = at_once(env.filters[name])
    return env


def render(env, template, variables):
    """The text, or None with the reason when Python refuses. `variables` is JSON text, so that what
    a template changes in them (it can, in spite of the sandbox) does not last."""
    try:
        text = env.from_string(template).render(**json.loads(variables))
        text.encode()  # half surrogates are no text
        return text, ""
    except Exception as error:  # whatever Python raises is a refusal
        return None, f"{type(error).__name__}: {error}"
