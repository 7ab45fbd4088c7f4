/* jinja_filters.c - finding and applying filters; the filters are in jinja_filters_text.c and
 * jinja_filters_list.c. */
#include "text/jinja_builtins.h"

#include <string.h>

#include "base/bytes.h"

static const rl_jinja_filter *const tables[] = { rl_jinja_text_filters, rl_jinja_list_filters };

const rl_jinja_filter *rl_jinja_find_filter(const rl_string *name)
{
    for (size_t t = 0; t < RL_COUNT_OF(tables); t++)
        for (const rl_jinja_filter *filter = tables[t]; filter->name; filter++)
            if (rl_string_is(name, filter->name)) return filter;
    return NULL;
}

bool rl_jinja_knows_filter(const rl_string *name)
{
    static const char *const elsewhere[] = { "filesizeformat", "groupby",   "pprint",
                                             "random",         "striptags", "urlencode",
                                             "urlize",         "wordwrap",  "xmlattr" };
    for (size_t i = 0; i < RL_COUNT_OF(elsewhere); i++)
        if (rl_string_is(name, elsewhere[i])) return true;
    return rl_jinja_find_filter(name);
}

rl_value rl_jinja_apply_filter(rl_jinja_run *run, const rl_string *name,
                               const rl_jinja_filter *filter, rl_value subject,
                               const rl_jinja_args *args)
{
    rl_value bound[RL_JINJA_MAX_PARAMS];
    if (!filter)
        rl_jinja_raise(run, RL_UNSUPPORTED, "filter '%.*s' is not supported",
                       (int)(name->bytes > 60 ? 60 : name->bytes), name->at);
    rl_jinja_charge(run, 1);
    if (filter->apply_free) return filter->apply_free(run, subject, args);
    rl_jinja_bind(run, "filter", filter->name, filter->params, filter->required, args, bound);
    return filter->apply(run, subject, bound);
}
