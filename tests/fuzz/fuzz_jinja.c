/* fuzz_jinja.c - a template from any bytes, rendered for a conversation.
 *
 * Input: the template; behind a zero byte, if there is one, the conversation's JSON, otherwise the
 * one below. It may end in any status, but soon, within its bounds, and with a sentence. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "text/chat.h"
#include "text/json.h"
#include "text/unicode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static const char conversation[] =
    "{\"messages\":[{\"role\":\"system\",\"content\":\"S\"},"
    "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"hi <x>\"}],\"n\":3},"
    "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"function\":{\"name\":\"f\","
    "\"arguments\":\"{\\\"x\\\":1.0,\\\"y\\\":[true,null]}\"}}]},"
    "{\"role\":\"tool\",\"content\":\"r\\n\",\"n\":1},"
    "{\"role\":\"assistant\",\"content\":\"<think>a</think> b\",\"reasoning_content\":\"c\"}],"
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":\"d\","
    "\"parameters\":{\"type\":\"object\",\"properties\":{\"x\":{\"type\":\"number\"}}}}}],"
    "\"add_generation_prompt\":true,\"s\":\"Hello\",\"e\":\"\",\"n\":5,\"z\":0,\"neg\":-3,\"f\":2."
    "5,"
    "\"t\":true,\"fl\":false,\"none_\":null,\"big\":9007199254740993,"
    "\"huge\":123456789012345678901234567890,\"l\":[1,2,3],\"le\":[],\"ls\":[\"b\",\"a\",\"C\"],"
    "\"lm\":[1,\"a\",null,2.5,true],\"d\":{\"a\":1,\"b\":\"x\",\"items\":[1],\"c\":{\"k\":[1,"
    "{\"z\":2}]}},\"de\":{},\"u\":\"日本語テキスト\",\"ll\":[[1,2],[3,4]],\"lf\":[1.5,0.1,1e22,-0."
    "0],"
    "\"words\":\"the quick  brown\\tfox\",\"msgs\":[{\"role\":\"user\",\"content\":\"a\",\"n\":3},"
    "{\"role\":\"tool\",\"content\":null}]}";

static void must(bool holds)
{
    if (!holds) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const char *template = (const char *)data, *json = conversation;
    const char *zero = bytes ? memchr(template, '\0', bytes) : NULL;
    size_t template_bytes = zero ? (size_t)(zero - template) : bytes;
    size_t json_bytes = sizeof conversation - 1;
    if (zero) {
        json = zero + 1;
        json_bytes = bytes - template_bytes - 1;
    }
    const rl_chat_params params = {
        .limits = { .max_steps = 30000, .max_depth = 150, .max_output_bytes = 100000 },
        .max_memory_bytes = (size_t)4 << 20,
        .now = 1700000000,
        .bos_token = "<s>",
        .eos_token = "</s>",
    };
    rl_error err = { { 0 } };
    rl_jinja *jinja;
    char *text = NULL;
    size_t text_bytes = 0;
    rl_status status =
        rl_jinja_parse(&jinja, template_bytes ? template : "", template_bytes, "template", &err);
    must(status ? !jinja && err.text[0] : jinja != NULL);
    if (status) return 0;
    status = rl_chat_render(jinja, json, json_bytes, &params, &text, &text_bytes, &err);
    must(status ? !text && err.text[0] : text != NULL);
    if (!status) {
        must(text_bytes <= 100000 && text[text_bytes] == '\0');
        must(rl_utf8_is_valid(text, text_bytes, NULL));
    } else {
        must(rl_utf8_is_valid(err.text, strlen(err.text), NULL));
    }
    free(text);
    rl_jinja_destroy(jinja);
    return 0;
}
