/* bench_tokenizer.c - how fast a vocabulary loads and a text is encoded, on one core.
 *
 * usage: bench_tokenizer VOCABULARY.gguf TEXT_FILE [RUNS]
 * CSV: what, bytes, best and median of the runs, by CPU time. TEXT_FILE is repeated up to 1 MB; a
 * text of 20,000-letter words stands for the worst case of one long piece. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "text/tokenizer.h"

enum { TEXT_BYTES = 1000000, WORD_BYTES = 20000, MAX_RUNS = 101 };

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void give_up(const rl_error *err)
{
    fprintf(stderr, "bench_tokenizer: %s\n", err->text);
    exit(1);
}

static int compare(const void *a, const void *b)
{
    double d = *(const double *)a - *(const double *)b;
    return (d > 0) - (d < 0);
}

static rl_tokenizer *load(const char *path)
{
    rl_error err = { "" };
    rl_gguf *file = NULL;
    rl_tokenizer *tokenizer = NULL;
    if (rl_gguf_open(&file, path, &err) || rl_tokenizer_open(&tokenizer, file, &err)) give_up(&err);
    rl_gguf_close(file);
    return tokenizer;
}

static void bench_text(const rl_tokenizer *tokenizer, const char *name, const char *text,
                       uint32_t runs)
{
    double speeds[MAX_RUNS];
    for (uint32_t i = 0; i < runs; i++) {
        rl_error err = { "" };
        rl_tokens ids = { 0 };
        double start = cpu_seconds();
        if (rl_tokenizer_encode(tokenizer, text, TEXT_BYTES, 0, &ids, &err)) give_up(&err);
        speeds[i] = 1e-6 * TEXT_BYTES / (cpu_seconds() - start);
        rl_tokens_fini(&ids);
    }
    qsort(speeds, runs, sizeof *speeds, compare);
    printf("%s,%d,%.1f,%.1f,MB/s\n", name, TEXT_BYTES, speeds[runs - 1], speeds[runs / 2]);
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fputs("usage: bench_tokenizer VOCABULARY.gguf TEXT_FILE [RUNS]\n", stderr);
        return 2;
    }
    rl_error err = { "" };
    uint32_t runs = argc > 3 ? (uint32_t)atoi(argv[3]) : 7;
    if (runs < 1 || runs > MAX_RUNS) runs = 7;
    char *file = NULL, *text = malloc(TEXT_BYTES);
    size_t bytes = 0;
    if (!text) return 1;
    if (rl_file_read_all(argv[2], 1 << 28, &file, &bytes, &err)) give_up(&err);
    if (!bytes) return 1;

    puts("what,bytes,best,median,unit");
    double seconds[MAX_RUNS];
    rl_tokenizer *tokenizer = NULL;
    for (uint32_t i = 0; i < runs; i++) {
        rl_tokenizer_close(tokenizer);
        double start = cpu_seconds();
        tokenizer = load(argv[1]);
        seconds[i] = cpu_seconds() - start;
    }
    qsort(seconds, runs, sizeof *seconds, compare);
    printf("load,%u,%.1f,%.1f,ms\n", rl_tokenizer_n_tokens(tokenizer), 1e3 * seconds[0],
           1e3 * seconds[runs / 2]);

    for (size_t at = 0; at < TEXT_BYTES; at++)
        text[at] = file[at % bytes];
    for (size_t at = TEXT_BYTES; at-- && (text[at] & 0x80);) /* no half character at the end */
        text[at] = ' ';
    bench_text(tokenizer, "text", text, runs);
    for (size_t at = 0; at < TEXT_BYTES; at++)
        text[at] = at % WORD_BYTES ? "abacabad"[at % 8] : ' ';
    bench_text(tokenizer, "long words", text, runs);
    rl_tokenizer_close(tokenizer);
    free(text);
    free(file);
    return 0;
}
