/* jinja_scope.c - which variables of a scope hide outer ones before they are set.
 *
 * jinja2 decides at compile time what a name means in a scope. A name that a scope sets is local to
 * it. Before it is set, it has the value of the surrounding scopes, or of the template's variables,
 * unless
 *   - no surrounding scope mentions the name, and
 *   - the scope sets it in a straight line, or in all three of if, elif and else, before it reads
 *     it itself (what nested scopes do does not count).
 * Then it is undefined until it is set: with {% for m in messages %}{{ tools }}{% endfor %}
 * {% set tools = [] %} the loop sees no tools, whatever the caller passed. This pass finds those
 * names by going over the statements in the order in which jinja2 does.
 *
 * Invariants
 *   - `now` describes the scope under analysis; `undo` can take back every change since a mark
 *   - around[id] counts the surrounding scopes that mention the name
 *   - time and memory are linear in the size of the template */
#include "text/jinja_ast.h"

#include <string.h>

enum { MENTIONED = 1, STORED = 2 };
typedef enum entry_value { OUTER, HIDDEN } entry_value; /* what the name is at entry */

typedef struct name_state {
    uint8_t flags, entry;
} name_state;

typedef struct change {
    const rl_string *name;
    name_state before;
} change;

typedef struct change_log {
    change *items;
    size_t count, capacity;
} change_log;

typedef struct scopes {
    rl_jinja_source *source;
    name_state *now;
    uint32_t *around;
    uint8_t *branch_bits; /* [id] while branches are merged, else 0 */
    change_log undo;
    unsigned depth;
    const rl_string *loop, *caller, *kwargs, *varargs;
} scopes;

enum { MAX_DEPTH = 1000 };

static uint32_t id_of(const rl_string *name)
{
    return ((const rl_jinja_name *)name)->id;
}

static void log_change(scopes *s, change_log *log, change item)
{
    if (log->count == log->capacity) {
        size_t capacity = log->capacity ? 2 * log->capacity : 32;
        change *wider = rl_jinja_take(s->source, capacity * sizeof *wider);
        if (log->count) memcpy(wider, log->items, log->count * sizeof *wider);
        log->items = wider;
        log->capacity = capacity;
    }
    log->items[log->count++] = item;
}

static void update(scopes *s, const rl_string *name, uint8_t flags, uint8_t entry)
{
    name_state *state = &s->now[id_of(name)];
    if (state->flags == flags && state->entry == entry) return;
    log_change(s, &s->undo, (change){ .name = name, .before = *state });
    *state = (name_state){ .flags = flags, .entry = entry };
}

/* ---- names in the order jinja2 sees them ---------------------------------------------------- */

static void load(scopes *s, const rl_string *name)
{
    name_state state = s->now[id_of(name)];
    if (!(state.flags & MENTIONED) && !s->around[id_of(name)])
        update(s, name, state.flags | MENTIONED, OUTER);
}

static void store(scopes *s, const rl_string *name)
{
    name_state state = s->now[id_of(name)];
    bool hides = !(state.flags & MENTIONED) && !s->around[id_of(name)];
    update(s, name, state.flags | MENTIONED | STORED, hides ? HIDDEN : state.entry);
}

static void declare(scopes *s, const rl_string *name)
{
    update(s, name, MENTIONED | STORED, OUTER);
}

static void visit(scopes *s, const rl_node *node);

static void visit_list(scopes *s, const rl_node_list *list)
{
    for (uint32_t i = 0; i < list->count; i++)
        visit(s, list->items[i]);
}

static void visit_args(scopes *s, const rl_node_args *args)
{
    if (!args) return;
    visit_list(s, &args->positional);
    visit_list(s, &args->named);
    visit(s, args->more_positional);
    visit(s, args->more_named);
}

static void visit_target(scopes *s, const rl_node *target, bool as_parameter)
{
    if (target->kind == RL_NODE_NS_TARGET)
        load(s, target->attribute.variable);
    else if (target->kind == RL_NODE_NAME && as_parameter)
        declare(s, target->name);
    else if (target->kind == RL_NODE_NAME)
        store(s, target->name);
    else
        for (uint32_t i = 0; i < target->many.count; i++)
            visit_target(s, target->many.items[i], as_parameter);
}

/* Takes back all changes since `mark` and gives what they had led to. */
static change_log take_back(scopes *s, size_t mark)
{
    change_log after = { 0 };
    while (s->undo.count > mark) {
        change last = s->undo.items[--s->undo.count];
        name_state *state = &s->now[id_of(last.name)];
        log_change(s, &after, (change){ .name = last.name, .before = *state });
        *state = last.before;
    }
    return after;
}

enum { STORED_IN_ALL = 7, SEEN = 8, HIDDEN_IN_ELSE = 16 }; /* branch_bits; 1, 2, 4: stored in it */

/* Branches of an if see the names as they were before it. Afterwards a name new to the scope is
 * hidden if all of them set it and the last one hides it; otherwise it has its outer value. */
static void merge_branches(scopes *s, const change_log *branches)
{
    for (int b = 0; b < 3; b++)
        for (size_t i = branches[b].count; i-- > 0;) { /* the newest state of a name comes last */
            const change *item = &branches[b].items[i];
            uint8_t *bits = &s->branch_bits[id_of(item->name)];
            *bits |= SEEN;
            if (item->before.flags & STORED) *bits |= (uint8_t)(1 << b);
            if (b == 2)
                *bits = (uint8_t)((*bits & ~HIDDEN_IN_ELSE) |
                                  (item->before.entry == HIDDEN ? HIDDEN_IN_ELSE : 0));
        }
    for (int b = 0; b < 3; b++)
        for (size_t i = 0; i < branches[b].count; i++) {
            const rl_string *name = branches[b].items[i].name;
            uint8_t *bits = &s->branch_bits[id_of(name)];
            if (!*bits) continue;
            name_state state = s->now[id_of(name)];
            bool hidden = (*bits & STORED_IN_ALL) == STORED_IN_ALL && *bits & HIDDEN_IN_ELSE;
            uint8_t entry = state.flags & MENTIONED ? state.entry : hidden ? HIDDEN : OUTER;
            update(s, name, state.flags | MENTIONED | (*bits & STORED_IN_ALL ? STORED : 0), entry);
            *bits = 0;
        }
}

static void visit_if(scopes *s, const rl_node *node, uint32_t first)
{
    change_log branches[3] = { { 0 } };
    visit(s, node->branches.tests.items[first]);
    size_t mark = s->undo.count;
    visit(s, node->branches.bodies.items[first]);
    branches[0] = take_back(s, mark);
    if (!first) { /* every elif is an if of its own, one after the other */
        for (uint32_t i = 1; i < node->branches.tests.count; i++)
            visit_if(s, node, i);
        branches[1] = take_back(s, mark);
        if (node->branches.otherwise) visit(s, node->branches.otherwise);
        branches[2] = take_back(s, mark);
    }
    merge_branches(s, branches);
}

static void visit_pair(scopes *s, const rl_node *node)
{
    visit(s, node->pair.left);
    visit(s, node->pair.right);
}

/* Statements and expressions alike; scopes inside are not entered. NULL is fine. */
static void visit(scopes *s, const rl_node *node)
{
    if (!node) return;
    if (++s->depth > MAX_DEPTH)
        rl_jinja_syntax_error(s->source, RL_INVALID, node->line,
                              "an expression of more than %d levels", MAX_DEPTH);
    switch (node->kind) {
    case RL_NODE_NAME: load(s, node->name); break;
    case RL_NODE_LIST:
    case RL_NODE_TUPLE:
    case RL_NODE_DICT:
    case RL_NODE_CONCAT: visit_list(s, &node->many); break;
    case RL_NODE_BINARY:
    case RL_NODE_AND:
    case RL_NODE_OR:
    case RL_NODE_NOT:
    case RL_NODE_NEGATE:
    case RL_NODE_PLUS:
    case RL_NODE_ITEM:
    case RL_NODE_PRINT: visit_pair(s, node); break;
    case RL_NODE_COMPARE:
        visit(s, node->compare.first);
        visit_list(s, &node->compare.others);
        break;
    case RL_NODE_CHOICE:
        visit(s, node->choice.test);
        visit(s, node->choice.yes);
        visit(s, node->choice.no);
        break;
    case RL_NODE_ATTRIBUTE: visit(s, node->attribute.of); break;
    case RL_NODE_SLICE:
        visit(s, node->slice.of);
        visit(s, node->slice.start);
        visit(s, node->slice.stop);
        visit(s, node->slice.step);
        break;
    case RL_NODE_CALL:
        visit(s, node->call.callee);
        visit_args(s, node->call.args);
        break;
    case RL_NODE_FILTER:
    case RL_NODE_TEST:
        visit(s, node->apply.subject);
        visit_args(s, node->apply.args);
        break;
    case RL_NODE_BODY: visit_list(s, &node->body.statements); break;
    case RL_NODE_IF: visit_if(s, node, 0); break;
    case RL_NODE_FOR: visit(s, node->loop.over); break;
    case RL_NODE_SET:
        visit(s, node->assign.value);
        visit_target(s, node->assign.target, false);
        break;
    case RL_NODE_SET_BLOCK: visit_target(s, node->assign.target, false); break;
    case RL_NODE_FILTER_BLOCK: visit(s, node->assign.value); break;
    case RL_NODE_MACRO: store(s, node->macro->name); break;
    case RL_NODE_CALL_BLOCK: visit(s, node->call_block.call); break;
    case RL_NODE_WITH: visit_list(s, &node->with.values); break;
    default: break;
    }
    s->depth--;
}

/* ---- scopes --------------------------------------------------------------------------------- */

static void analyse_inside(scopes *s, const rl_node *node);

/* A body whose parameters have been declared: finds its hidden names, then does the same for the
 * scopes inside it. */
static void analyse_body(scopes *s, rl_node *body)
{
    visit(s, body);
    change_log mentioned = take_back(s, 0);
    const rl_string **hidden = rl_jinja_take(s->source, mentioned.count * sizeof *hidden);
    uint32_t n_hidden = 0;
    /* Each name once: the newest state was logged first. */
    for (size_t i = 0; i < mentioned.count; i++) {
        uint8_t *seen = &s->branch_bits[id_of(mentioned.items[i].name)];
        if (!*seen && mentioned.items[i].before.entry == HIDDEN)
            hidden[n_hidden++] = mentioned.items[i].name;
        *seen = SEEN;
    }
    for (size_t i = 0; i < mentioned.count; i++) {
        s->branch_bits[id_of(mentioned.items[i].name)] = 0;
        s->around[id_of(mentioned.items[i].name)]++;
    }
    body->body.hidden = hidden;
    body->body.n_hidden = n_hidden;
    analyse_inside(s, body);
    for (size_t i = 0; i < mentioned.count; i++)
        s->around[id_of(mentioned.items[i].name)]--;
}

static void analyse_macro(scopes *s, const rl_node_macro *macro)
{
    for (uint32_t i = 0; i < macro->params.count; i++)
        declare(s, macro->params.items[i]->name);
    if (macro->uses_caller) declare(s, s->caller);
    if (macro->uses_kwargs) declare(s, s->kwargs);
    if (macro->uses_varargs) declare(s, s->varargs);
    visit_list(s, &macro->defaults);
    analyse_body(s, macro->body);
}

/* Finds the scopes directly inside a statement. */
static void analyse_inside(scopes *s, const rl_node *node)
{
    switch (node->kind) {
    case RL_NODE_BODY:
        for (uint32_t i = 0; i < node->body.statements.count; i++)
            analyse_inside(s, node->body.statements.items[i]);
        break;
    case RL_NODE_IF:
        for (uint32_t i = 0; i < node->branches.bodies.count; i++)
            analyse_inside(s, node->branches.bodies.items[i]);
        if (node->branches.otherwise) analyse_inside(s, node->branches.otherwise);
        break;
    case RL_NODE_FOR:
        declare(s, s->loop);
        visit_target(s, node->loop.target, true);
        analyse_body(s, node->loop.body);
        if (node->loop.otherwise) analyse_body(s, node->loop.otherwise);
        break;
    case RL_NODE_SET_BLOCK:
    case RL_NODE_FILTER_BLOCK: analyse_body(s, node->assign.body); break;
    case RL_NODE_MACRO: analyse_macro(s, node->macro); break;
    case RL_NODE_CALL_BLOCK: analyse_macro(s, node->call_block.macro); break;
    case RL_NODE_WITH:
        for (uint32_t i = 0; i < node->with.targets.count; i++)
            visit_target(s, node->with.targets.items[i], true);
        analyse_body(s, node->with.body);
        break;
    case RL_NODE_SCOPE: analyse_body(s, node->pair.left); break;
    default: break;
    }
}

void rl_jinja_find_scopes(rl_jinja_source *source, rl_node *body)
{
    scopes s = { .source = source,
                 .loop = rl_jinja_intern(source, "loop", 4),
                 .caller = rl_jinja_intern(source, "caller", 6),
                 .kwargs = rl_jinja_intern(source, "kwargs", 6),
                 .varargs = rl_jinja_intern(source, "varargs", 7) };
    size_t n = source->names->count;
    s.now = rl_jinja_take(source, (n + 1) * sizeof *s.now);
    s.around = rl_jinja_take(source, (n + 1) * sizeof *s.around);
    s.branch_bits = rl_jinja_take(source, n + 1);
    memset(s.now, 0, (n + 1) * sizeof *s.now);
    memset(s.around, 0, (n + 1) * sizeof *s.around);
    memset(s.branch_bits, 0, n + 1);
    analyse_body(&s, body);
}
