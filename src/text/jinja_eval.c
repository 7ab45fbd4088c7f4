/* jinja_eval.c - expressions and statements of the syntax tree, as a tree walk.
 *
 * Scopes: loop iterations, macros, and the bodies of set, filter, with and generation blocks have
 * variables of their own; if does not. Assignment always goes to the innermost scope, lookup goes
 * outwards, then to the template's variables, then to the built-in functions. */
#include "text/jinja_builtins.h"

#include <string.h>

/* ---- variables ------------------------------------------------------------------------------ */

void rl_frame_init(rl_frame *frame, rl_frame *outer)
{
    *frame = (rl_frame){ .outer = outer };
}

void rl_frame_set(rl_jinja_run *run, rl_frame *frame, const rl_string *name, rl_value value)
{
    for (uint32_t i = 0; i < frame->count; i++)
        if (frame->variables[i].name == name) {
            frame->variables[i].value = value;
            return;
        }
    if (frame->count == frame->capacity) {
        uint32_t capacity = frame->capacity ? 2 * frame->capacity : 4;
        rl_variable *wider = rl_jinja_alloc(run, capacity * sizeof *wider);
        if (frame->count) memcpy(wider, frame->variables, frame->count * sizeof *wider);
        frame->variables = wider;
        frame->capacity = capacity;
    }
    frame->variables[frame->count++] = (rl_variable){ .name = name, .value = value };
}

static rl_value look_up(rl_jinja_run *run, const rl_frame *frame, const rl_string *name)
{
    for (; frame; frame = frame->outer)
        for (uint32_t i = 0; i < frame->count; i++)
            if (frame->variables[i].name == name)
                return frame->variables[i].value.kind == RL_VALUE_MISSING
                           ? rl_jinja_undefined_name(name)
                           : frame->variables[i].value;
    const rl_value *value = rl_dict_find(run->variables, rl_value_string(name));
    if (value) return *value;
    const rl_jinja_function *function = rl_jinja_find_function(name);
    if (function) return (rl_value){ .kind = RL_VALUE_FUNCTION, .object = (void *)function };
    return rl_jinja_undefined_name(name);
}

static void assign_attribute(rl_jinja_run *run, rl_frame *frame, const rl_node *target,
                             rl_value value)
{
    rl_value space = look_up(run, frame, target->attribute.variable);
    if (space.kind != RL_VALUE_NAMESPACE)
        rl_jinja_raise(run, RL_INVALID, "cannot assign attribute on non-namespace object");
    rl_jinja_set_key(run, space.dict, rl_value_string(target->attribute.name), value);
}

void rl_jinja_assign(rl_jinja_run *run, rl_frame *frame, const rl_node *target, rl_value value)
{
    if (target->kind == RL_NODE_NAME) {
        rl_frame_set(run, frame, target->name, value);
        return;
    }
    if (target->kind == RL_NODE_NS_TARGET) {
        assign_attribute(run, frame, target, value);
        return;
    }
    uint32_t wanted = target->many.count;
    const rl_list *items = rl_jinja_items(run, value);
    if (items->count < wanted)
        rl_jinja_raise(run, RL_INVALID, "not enough values to unpack (expected %u, got %zu)",
                       wanted, items->count);
    if (items->count > wanted)
        rl_jinja_raise(run, RL_INVALID, "too many values to unpack (expected %u)", wanted);
    for (uint32_t i = 0; i < wanted; i++)
        rl_jinja_assign(run, frame, target->many.items[i], items->items[i]);
}

/* ---- expressions ---------------------------------------------------------------------------- */

static rl_value eval_many(rl_jinja_run *run, rl_frame *frame, const rl_node *node)
{
    rl_list *list = rl_jinja_list(run, node->kind == RL_NODE_TUPLE ? RL_LIST_TUPLE : RL_LIST_PLAIN,
                                  node->many.count);
    for (uint32_t i = 0; i < node->many.count; i++)
        rl_jinja_add(run, list, rl_jinja_eval(run, frame, node->many.items[i]));
    return rl_value_list(list);
}

static rl_value eval_dict(rl_jinja_run *run, rl_frame *frame, const rl_node *node)
{
    rl_dict *dict = rl_dict_create(run->arena, node->many.count / 2);
    if (!dict) rl_jinja_out_of_memory(run);
    for (uint32_t i = 0; i < node->many.count; i += 2) {
        rl_value key = rl_jinja_eval(run, frame, node->many.items[i]);
        rl_value value = rl_jinja_eval(run, frame, node->many.items[i + 1]);
        run->line = node->line;
        rl_jinja_set_key(run, dict, key, value);
    }
    return rl_value_dict(dict);
}

static rl_value eval_concat(rl_jinja_run *run, rl_frame *frame, const rl_node *node)
{
    const rl_string *sum = NULL;
    for (uint32_t i = 0; i < node->many.count; i++) {
        rl_value item = rl_jinja_eval(run, frame, node->many.items[i]);
        run->line = node->line;
        item = rl_jinja_str(run, item);
        rl_jinja_charge(run, item.string->bytes / 64);
        sum = sum ? rl_string_join(run->arena, sum, item.string) : item.string;
        if (!sum) rl_jinja_out_of_memory(run);
    }
    return rl_value_string(sum);
}

static rl_value eval_binary(rl_jinja_run *run, rl_frame *frame, const rl_node *node)
{
    rl_value left = rl_jinja_eval(run, frame, node->pair.left);
    rl_value right = rl_jinja_eval(run, frame, node->pair.right);
    run->line = node->line;
    return rl_jinja_binary(run, node->op, left, right);
}

static rl_value eval_compare(rl_jinja_run *run, rl_frame *frame, const rl_node *node)
{
    rl_value left = rl_jinja_eval(run, frame, node->compare.first);
    for (uint32_t i = 0; i < node->compare.others.count; i++) {
        rl_value right = rl_jinja_eval(run, frame, node->compare.others.items[i]);
        run->line = node->line;
        if (!rl_jinja_compare(run, node->compare.ops[i], left, right)) return rl_value_bool(false);
        left = right;
    }
    return rl_value_bool(true);
}

static rl_value eval_choice(rl_jinja_run *run, rl_frame *frame, const rl_node *node)
{
    if (rl_jinja_truth(rl_jinja_eval(run, frame, node->choice.test)))
        return rl_jinja_eval(run, frame, node->choice.yes);
    if (node->choice.no) return rl_jinja_eval(run, frame, node->choice.no);
    return rl_jinja_undefined_saying("the inline if-expression evaluated to false and no else "
                                     "section was defined");
}

static rl_value eval_slice(rl_jinja_run *run, rl_frame *frame, const rl_node *node)
{
    rl_value of = rl_jinja_eval(run, frame, node->slice.of), bound[3] = { { 0 } };
    const rl_node *const nodes[3] = { node->slice.start, node->slice.stop, node->slice.step };
    for (int i = 0; i < 3; i++)
        if (nodes[i]) bound[i] = rl_jinja_eval(run, frame, nodes[i]);
    run->line = node->line;
    return rl_jinja_slice(run, of, bound[0], bound[1], bound[2]);
}

/* Evaluates arguments; the lists lie in the arena. extra: a named argument to add, or NULL. */
static rl_jinja_args eval_args(rl_jinja_run *run, rl_frame *frame, const rl_node_args *args,
                               const rl_string *extra, rl_value extra_value)
{
    rl_list *items = rl_jinja_list(run, RL_LIST_PLAIN, args->positional.count);
    rl_dict *named = NULL;
    for (uint32_t i = 0; i < args->positional.count; i++)
        rl_jinja_add(run, items, rl_jinja_eval(run, frame, args->positional.items[i]));
    if (args->more_positional) {
        const rl_list *more = rl_jinja_items(run, rl_jinja_eval(run, frame, args->more_positional));
        rl_jinja_charge(run, more->count);
        for (size_t i = 0; i < more->count; i++)
            rl_jinja_add(run, items, more->items[i]);
    }
    if (args->named.count || args->more_named || extra) {
        named = rl_dict_create(run->arena, args->named.count);
        if (!named) rl_jinja_out_of_memory(run);
    }
    for (uint32_t i = 0; i < args->named.count; i++)
        rl_jinja_set_key(run, named, rl_value_string(args->names[i]),
                         rl_jinja_eval(run, frame, args->named.items[i]));
    if (args->more_named) {
        rl_value more = rl_jinja_eval(run, frame, args->more_named);
        if (more.kind != RL_VALUE_DICT)
            rl_jinja_raise(run, RL_INVALID, "argument after ** must be a mapping, not %s",
                           rl_jinja_type(more));
        for (size_t i = 0; i < more.dict->count; i++)
            rl_jinja_string_arg(run, more.dict->pairs[i].key, "keywords");
        for (size_t i = 0; i < more.dict->count; i++)
            rl_jinja_set_key(run, named, more.dict->pairs[i].key, more.dict->pairs[i].value);
    }
    if (extra) rl_jinja_set_key(run, named, rl_value_string(extra), extra_value);
    return (rl_jinja_args){ .items = items->items, .count = items->count, .named = named };
}

static rl_value eval_call(rl_jinja_run *run, rl_frame *frame, const rl_node *node,
                          const rl_string *extra, rl_value extra_value)
{
    rl_value callee = rl_jinja_eval(run, frame, node->call.callee);
    rl_jinja_args args = eval_args(run, frame, node->call.args, extra, extra_value);
    run->line = node->line;
    return rl_jinja_call(run, callee, &args);
}

static rl_value eval_apply(rl_jinja_run *run, rl_frame *frame, const rl_node *node)
{
    rl_jinja_args args = { 0 };
    rl_value subject = rl_jinja_eval(run, frame, node->apply.subject);
    if (node->apply.args) args = eval_args(run, frame, node->apply.args, NULL, subject);
    run->line = node->line;
    if (node->kind == RL_NODE_FILTER)
        return rl_jinja_apply_filter(run, node->apply.name, node->apply.filter, subject, &args);
    return rl_value_bool(
        rl_jinja_apply_test(run, node->apply.name, node->apply.test, subject, &args));
}

static rl_value eval_node(rl_jinja_run *run, rl_frame *frame, const rl_node *node)
{
    rl_value value;
    switch (node->kind) {
    case RL_NODE_CONSTANT: return node->value;
    case RL_NODE_NAME: return look_up(run, frame, node->name);
    case RL_NODE_INPUT: return run->input;
    case RL_NODE_LIST:
    case RL_NODE_TUPLE: return eval_many(run, frame, node);
    case RL_NODE_DICT: return eval_dict(run, frame, node);
    case RL_NODE_CONCAT: return eval_concat(run, frame, node);
    case RL_NODE_BINARY: return eval_binary(run, frame, node);
    case RL_NODE_AND:
    case RL_NODE_OR:
        value = rl_jinja_eval(run, frame, node->pair.left);
        if (rl_jinja_truth(value) != (node->kind == RL_NODE_AND)) return value;
        return rl_jinja_eval(run, frame, node->pair.right);
    case RL_NODE_NOT:
        return rl_value_bool(!rl_jinja_truth(rl_jinja_eval(run, frame, node->pair.left)));
    case RL_NODE_NEGATE:
    case RL_NODE_PLUS:
        value = rl_jinja_eval(run, frame, node->pair.left);
        run->line = node->line;
        return rl_jinja_negate(run, value, node->kind == RL_NODE_NEGATE);
    case RL_NODE_COMPARE: return eval_compare(run, frame, node);
    case RL_NODE_CHOICE: return eval_choice(run, frame, node);
    case RL_NODE_ATTRIBUTE:
        value = rl_jinja_eval(run, frame, node->attribute.of);
        run->line = node->line;
        return rl_jinja_attribute(run, value, node->attribute.name);
    case RL_NODE_ITEM: {
        value = rl_jinja_eval(run, frame, node->pair.left);
        rl_value index = rl_jinja_eval(run, frame, node->pair.right);
        run->line = node->line;
        return rl_jinja_item(run, value, index);
    }
    case RL_NODE_SLICE: return eval_slice(run, frame, node);
    case RL_NODE_CALL: return eval_call(run, frame, node, NULL, rl_value_none());
    default: return eval_apply(run, frame, node);
    }
}

rl_value rl_jinja_eval(rl_jinja_run *run, rl_frame *frame, const rl_node *node)
{
    run->line = node->line;
    rl_jinja_charge(run, 1);
    rl_jinja_enter(run);
    rl_value value = eval_node(run, frame, node);
    rl_jinja_leave(run);
    return value;
}

/* ---- statements ----------------------------------------------------------------------------- */

static rl_flow exec_body(rl_jinja_run *run, rl_frame *frame, const rl_node *node)
{
    rl_flow flow = RL_FLOW_NEXT;
    for (uint32_t i = 0; i < node->body.statements.count && flow == RL_FLOW_NEXT; i++)
        flow = rl_jinja_exec(run, frame, node->body.statements.items[i]);
    return flow;
}

rl_flow rl_jinja_exec_scope(rl_jinja_run *run, rl_frame *frame, const rl_node *body)
{
    for (uint32_t i = 0; i < body->body.n_hidden; i++)
        rl_frame_set(run, frame, body->body.hidden[i], (rl_value){ 0 });
    return rl_jinja_exec(run, frame, body);
}

static rl_flow exec_if(rl_jinja_run *run, rl_frame *frame, const rl_node *node)
{
    for (uint32_t i = 0; i < node->branches.tests.count; i++)
        if (rl_jinja_truth(rl_jinja_eval(run, frame, node->branches.tests.items[i])))
            return rl_jinja_exec(run, frame, node->branches.bodies.items[i]);
    if (node->branches.otherwise) return rl_jinja_exec(run, frame, node->branches.otherwise);
    return RL_FLOW_NEXT;
}

static rl_flow exec_for(rl_jinja_run *run, rl_frame *frame, const rl_node *node)
{
    rl_value over = rl_jinja_eval(run, frame, node->loop.over), item;
    run->line = node->line;
    const rl_list *items = rl_jinja_items(run, over);
    rl_loop *loop = rl_jinja_alloc(run, sizeof *loop);
    *loop = (rl_loop){ .node = node,
                       .outer = frame,
                       .items = items->items,
                       .count = items->count,
                       .index = -1,
                       .length = node->loop.filter ? -1 : (int64_t)items->count };
    rl_value loop_value = { .kind = RL_VALUE_LOOP, .object = loop };
    rl_frame *inner = rl_jinja_alloc(run, sizeof *inner);
    rl_frame_init(inner, frame);
    bool none_done = true;
    while (rl_loop_next(run, loop, &item)) {
        inner->count = 0;
        rl_frame_set(run, inner, run->jinja->loop, loop_value);
        rl_jinja_assign(run, inner, node->loop.target, item);
        rl_flow flow = rl_jinja_exec_scope(run, inner, node->loop.body);
        if (flow == RL_FLOW_BREAK) break;
        /* As in jinja2: an iteration left by `continue` or `break` does not count as one here. */
        if (flow == RL_FLOW_NEXT) none_done = false;
    }
    if (!none_done || !node->loop.otherwise) return RL_FLOW_NEXT;
    rl_frame_init(inner, frame);
    return rl_jinja_exec_scope(run, inner, node->loop.otherwise);
}

/* Runs a body with variables of its own; its text becomes *text instead of output. */
static rl_flow capture(rl_jinja_run *run, rl_frame *frame, const rl_node *body, rl_value *text)
{
    rl_frame *inner = rl_jinja_alloc(run, sizeof *inner);
    rl_frame_init(inner, frame);
    size_t begin = run->out.bytes;
    rl_flow flow = rl_jinja_exec_scope(run, inner, body);
    *text = rl_jinja_captured(run, begin);
    return flow;
}

static rl_value filter_text(rl_jinja_run *run, rl_frame *frame, const rl_node *filters,
                            rl_value text)
{
    rl_value before = run->input;
    run->input = text;
    text = rl_jinja_eval(run, frame, filters);
    run->input = before;
    return text;
}

static rl_flow exec_set_block(rl_jinja_run *run, rl_frame *frame, const rl_node *node)
{
    rl_value text;
    rl_flow flow = capture(run, frame, node->assign.body, &text);
    if (flow != RL_FLOW_NEXT) return flow;
    if (node->assign.value) text = filter_text(run, frame, node->assign.value, text);
    run->line = node->line;
    rl_jinja_assign(run, frame, node->assign.target, text);
    return RL_FLOW_NEXT;
}

static rl_flow exec_filter_block(rl_jinja_run *run, rl_frame *frame, const rl_node *node)
{
    rl_value text;
    rl_flow flow = capture(run, frame, node->assign.body, &text);
    if (flow != RL_FLOW_NEXT) return flow;
    text = filter_text(run, frame, node->assign.value, text);
    run->line = node->line;
    rl_jinja_emit_str(run, text);
    return RL_FLOW_NEXT;
}

static rl_flow exec_with(rl_jinja_run *run, rl_frame *frame, const rl_node *node)
{
    rl_frame *inner = rl_jinja_alloc(run, sizeof *inner);
    rl_frame_init(inner, frame);
    for (uint32_t i = 0; i < node->with.targets.count; i++) {
        rl_value value = rl_jinja_eval(run, frame, node->with.values.items[i]);
        rl_jinja_assign(run, inner, node->with.targets.items[i], value);
    }
    return rl_jinja_exec_scope(run, inner, node->with.body);
}

static rl_flow exec_scope(rl_jinja_run *run, rl_frame *frame, const rl_node *node)
{
    rl_frame *inner = rl_jinja_alloc(run, sizeof *inner);
    rl_frame_init(inner, frame);
    return rl_jinja_exec_scope(run, inner, node->pair.left);
}

static rl_value make_macro(rl_jinja_run *run, rl_frame *frame, const rl_node_macro *node)
{
    rl_macro *macro = rl_jinja_alloc(run, sizeof *macro);
    *macro = (rl_macro){ .node = node, .frame = frame };
    return (rl_value){ .kind = RL_VALUE_MACRO, .object = macro };
}

static void exec_call_block(rl_jinja_run *run, rl_frame *frame, const rl_node *node)
{
    rl_value body = make_macro(run, frame, node->call_block.macro);
    rl_value text = eval_call(run, frame, node->call_block.call, run->jinja->caller, body);
    rl_jinja_emit_str(run, text);
}

static rl_flow exec_node(rl_jinja_run *run, rl_frame *frame, const rl_node *node)
{
    rl_value value;
    switch (node->kind) {
    case RL_NODE_DATA:
        rl_jinja_emit(run, node->value.string->at, node->value.string->bytes);
        return RL_FLOW_NEXT;
    case RL_NODE_PRINT:
        value = rl_jinja_eval(run, frame, node->pair.left);
        run->line = node->line;
        rl_jinja_emit_str(run, value);
        return RL_FLOW_NEXT;
    case RL_NODE_BODY: return exec_body(run, frame, node);
    case RL_NODE_IF: return exec_if(run, frame, node);
    case RL_NODE_FOR: return exec_for(run, frame, node);
    case RL_NODE_SET:
        value = rl_jinja_eval(run, frame, node->assign.value);
        run->line = node->line;
        rl_jinja_assign(run, frame, node->assign.target, value);
        return RL_FLOW_NEXT;
    case RL_NODE_SET_BLOCK: return exec_set_block(run, frame, node);
    case RL_NODE_FILTER_BLOCK: return exec_filter_block(run, frame, node);
    case RL_NODE_MACRO:
        rl_frame_set(run, frame, node->macro->name, make_macro(run, frame, node->macro));
        return RL_FLOW_NEXT;
    case RL_NODE_CALL_BLOCK: exec_call_block(run, frame, node); return RL_FLOW_NEXT;
    case RL_NODE_WITH: return exec_with(run, frame, node);
    case RL_NODE_SCOPE: return exec_scope(run, frame, node);
    case RL_NODE_BREAK: return RL_FLOW_BREAK;
    default: return RL_FLOW_CONTINUE;
    }
}

rl_flow rl_jinja_exec(rl_jinja_run *run, rl_frame *frame, const rl_node *node)
{
    run->line = node->line;
    rl_jinja_charge(run, 1);
    rl_jinja_enter(run);
    rl_flow flow = exec_node(run, frame, node);
    rl_jinja_leave(run);
    return flow;
}
