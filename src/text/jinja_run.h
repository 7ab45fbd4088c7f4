/* jinja_run.h - one rendering in progress, and the operations on values that it is made of.
 *
 * Operations mean what they mean in Python, exceptions included: an operation that Python refuses
 * leaves by longjmp to the one setjmp in rl_jinja_render, with a sentence and the line. That is why
 * nothing here returns a status. Whatever is allocated on the way lies in the arena or in `out`,
 * which render frees, so leaving loses nothing. Functions that run templates or user-sized data
 * charge steps; what recurses counts its depth. */
#ifndef RL_TEXT_JINJA_RUN_H
#define RL_TEXT_JINJA_RUN_H

#include <setjmp.h>

#include "text/jinja.h"
#include "text/jinja_ast.h"
#include "text/text_buffer.h"

struct rl_jinja {
    rl_arena arena;
    const rl_string *name;
    rl_node *body;
    const rl_string *loop, *caller, *varargs, *kwargs; /* these names, interned */
};

typedef struct rl_variable {
    const rl_string *name; /* interned */
    rl_value value;
} rl_variable;

/* The variables of a template, macro, loop iteration or block. Lookup goes outwards. */
typedef struct rl_frame {
    struct rl_frame *outer;
    rl_variable *variables;
    uint32_t count, capacity;
} rl_frame;

typedef struct rl_jinja_run {
    const rl_jinja *jinja;
    rl_arena *arena;
    const rl_dict *variables;
    rl_jinja_limits limits;
    int64_t now;
    rl_jinja_uses *uses;

    uint64_t steps;
    unsigned depth;
    uint32_t line;      /* of the node being worked on, for errors */
    rl_text_buffer out; /* the text so far; its end also serves as scratch, see captured */
    rl_value input;     /* what an INPUT node stands for */

    rl_error *err;
    rl_status status;
    jmp_buf leave;
} rl_jinja_run;

/* ---- leaving, memory, steps (jinja_run.c) --------------------------------------------------- */

_Noreturn void rl_jinja_raise(rl_jinja_run *run, rl_status status, const char *format, ...)
    RL_PRINTF(3, 4);
_Noreturn void rl_jinja_raise_undefined(rl_jinja_run *run, rl_value undefined);
_Noreturn void rl_jinja_out_of_memory(rl_jinja_run *run);
/* Leaves unless status is RL_OK, with the sentence in *inner. */
void rl_jinja_check(rl_jinja_run *run, rl_status status, const rl_error *inner);

void *rl_jinja_alloc(rl_jinja_run *run, size_t bytes);
void rl_jinja_charge(rl_jinja_run *run, uint64_t steps);
/* Around every recursion. */
void rl_jinja_enter(rl_jinja_run *run);
void rl_jinja_leave(rl_jinja_run *run);

void rl_jinja_emit(rl_jinja_run *run, const char *text, size_t bytes);
void rl_jinja_emit_text(rl_jinja_run *run, const char *text);
/* Takes what was emitted since `begin` (an earlier out.bytes) away from the output, as a string. */
rl_value rl_jinja_captured(rl_jinja_run *run, size_t begin);

rl_value rl_jinja_string(rl_jinja_run *run, const char *text, size_t bytes);
/* A string over bytes of the arena. */
rl_value rl_jinja_string_over(rl_jinja_run *run, const char *text, size_t bytes);
rl_list *rl_jinja_list(rl_jinja_run *run, rl_list_flavor flavor, size_t capacity);
void rl_jinja_add(rl_jinja_run *run, rl_list *list, rl_value item);
rl_value rl_jinja_pair(rl_jinja_run *run, rl_value a, rl_value b); /* a tuple */
void rl_jinja_set_key(rl_jinja_run *run, rl_dict *dict, rl_value key, rl_value value);

/* Notes what was done with a marked value (jinja.h). */
void rl_jinja_note(rl_jinja_run *run, rl_value value, rl_jinja_use use);

/* ---- kinds of undefined --------------------------------------------------------------------- */

enum {
    RL_UNDEFINED_NAME,      /* string: the variable                             */
    RL_UNDEFINED_ATTRIBUTE, /* string: the attribute or key, of_kind: of what   */
    RL_UNDEFINED_INDEX,     /* integer: the index, of_kind: of what             */
    RL_UNDEFINED_ELEMENT,   /* of_kind: of what, by something else              */
    RL_UNDEFINED_UNSAFE,    /* string: an attribute that templates may not use  */
    RL_UNDEFINED_SAYING     /* object: a constant sentence                      */
};
rl_value rl_jinja_undefined_name(const rl_string *name);
rl_value rl_jinja_undefined_attribute(rl_value of, const rl_string *name, bool unsafe);
rl_value rl_jinja_undefined_element(rl_value of, rl_value index);
rl_value rl_jinja_undefined_saying(const char *sentence);

/* ---- values as Python sees them (jinja_value.c) --------------------------------------------- */

/* "str", "NoneType", "dict_keys" ... */
const char *rl_jinja_type(rl_value value);

static inline bool rl_jinja_is_list(rl_value value, rl_list_flavor flavor)
{
    return value.kind == RL_VALUE_LIST && value.list->flavor == flavor;
}

bool rl_jinja_truth(rl_value value);
bool rl_jinja_is_int(rl_value value); /* bool or int: what can index and count */

/* str() and repr(), appended to the output. */
void rl_jinja_emit_str(rl_jinja_run *run, rl_value value);
void rl_jinja_emit_repr(rl_jinja_run *run, rl_value value);
/* str() as a value; a string stays what it is, its `safe` included. */
rl_value rl_jinja_str(rl_jinja_run *run, rl_value value);
rl_value rl_jinja_repr(rl_jinja_run *run, rl_value value);
/* HTML-escaped, marked safe; what is safe stays as it is. */
rl_value rl_jinja_escape(rl_jinja_run *run, rl_value value);

/* The items that a loop over the value sees. The list is only read, and may be the value's own. */
rl_list *rl_jinja_items(rl_jinja_run *run, rl_value value);
/* len() */
int64_t rl_jinja_length(rl_jinja_run *run, rl_value value);

/* value.name, value[index], value[start:stop:step] (a bound that is not there: MISSING). */
rl_value rl_jinja_attribute(rl_jinja_run *run, rl_value of, const rl_string *name);
rl_value rl_jinja_item(rl_jinja_run *run, rl_value of, rl_value index);
rl_value rl_jinja_slice(rl_jinja_run *run, rl_value of, rl_value start, rl_value stop,
                        rl_value step);
/* s[start:stop] in characters, already clamped. */
rl_value rl_jinja_substring(rl_jinja_run *run, rl_value of, size_t start, size_t stop);

/* ---- operators (jinja_operator.c) ----------------------------------------------------------- */

bool rl_jinja_equal(rl_jinja_run *run, rl_value a, rl_value b);
/* a < b, for sorting and comparisons; a TypeError for what has no order. */
bool rl_jinja_less(rl_jinja_run *run, rl_value a, rl_value b);
bool rl_jinja_compare(rl_jinja_run *run, rl_jinja_operator op, rl_value a, rl_value b);
bool rl_jinja_contains(rl_jinja_run *run, rl_value container, rl_value item);
rl_value rl_jinja_binary(rl_jinja_run *run, rl_jinja_operator op, rl_value a, rl_value b);
rl_value rl_jinja_negate(rl_jinja_run *run, rl_value value, bool minus);

/* "%s %d" % values: a tuple, a dict or one value (jinja_format.c). */
rl_value rl_jinja_format(rl_jinja_run *run, rl_value format, rl_value values);
struct rl_jinja_args;
/* "{} {name}".format(...): plain fields only. */
rl_value rl_jinja_format_method(rl_jinja_run *run, rl_value format,
                                const struct rl_jinja_args *args);

/* ---- running (jinja_eval.c, jinja_call.c) --------------------------------------------------- */

typedef struct rl_jinja_args {
    const rl_value *items;
    size_t count;
    const rl_dict *named; /* NULL: none */
} rl_jinja_args;

typedef enum rl_flow { RL_FLOW_NEXT, RL_FLOW_BREAK, RL_FLOW_CONTINUE } rl_flow;

typedef struct rl_macro {
    const rl_node_macro *node;
    rl_frame *frame; /* where it was defined */
} rl_macro;

/* A loop while it runs: what `loop` means inside. Items are produced one ahead at most, unless the
 * length is asked for. */
typedef struct rl_loop {
    const rl_node *node;
    rl_frame *outer; /* where the filter is evaluated */
    const rl_value *items;
    size_t count, next;
    int64_t index; /* from 0, -1 before the first */
    rl_value before, current, after;
    rl_value changed; /* what loop.changed() saw last */
    int64_t length;   /* -1: not known yet */
    bool filtered;    /* the filter has been applied to the items that are left */
} rl_loop;

rl_value rl_jinja_eval(rl_jinja_run *run, rl_frame *frame, const rl_node *node);
rl_flow rl_jinja_exec(rl_jinja_run *run, rl_frame *frame, const rl_node *node);
/* A body whose variables are those of `frame`. */
rl_flow rl_jinja_exec_scope(rl_jinja_run *run, rl_frame *frame, const rl_node *body);

void rl_frame_init(rl_frame *frame, rl_frame *outer);
void rl_frame_set(rl_jinja_run *run, rl_frame *frame, const rl_string *name, rl_value value);
/* Assigns to a name, or item by item to a tuple of names. */
void rl_jinja_assign(rl_jinja_run *run, rl_frame *frame, const rl_node *target, rl_value value);

/* The next item of a loop; false at the end. */
bool rl_loop_next(rl_jinja_run *run, rl_loop *loop, rl_value *item);
rl_value rl_loop_attribute(rl_jinja_run *run, rl_value loop, const rl_string *name);

rl_value rl_jinja_call(rl_jinja_run *run, rl_value callee, const rl_jinja_args *args);

#endif
