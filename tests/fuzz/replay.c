/* replay.c - plays saved inputs through a fuzz target without a fuzzer, as an ordinary test.
 *
 * Arguments are files or folders. Prints how many inputs ran; a target that finds something wrong
 * aborts. Stands against: a fixed bug that comes back, on compilers that have no libFuzzer. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static unsigned n_inputs;

static int play_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        return 1;
    }
    fseek(file, 0, SEEK_END);
    long bytes = ftell(file);
    rewind(file);
    /* Exactly as large as the input, so that a sanitizer sees every step too far. */
    uint8_t *data = malloc(bytes ? (size_t)bytes : 1);
    if (!data || fread(data, 1, (size_t)bytes, file) != (size_t)bytes) {
        perror(path);
        fclose(file);
        free(data);
        return 1;
    }
    fclose(file);
    LLVMFuzzerTestOneInput(data, (size_t)bytes);
    free(data);
    n_inputs++;
    return 0;
}

static int play(const char *path)
{
    struct stat info;
    if (stat(path, &info)) {
        perror(path);
        return 1;
    }
    if (!S_ISDIR(info.st_mode)) return play_file(path);
    DIR *folder = opendir(path);
    if (!folder) {
        perror(path);
        return 1;
    }
    int failed = 0;
    for (struct dirent *entry = readdir(folder); entry && !failed; entry = readdir(folder)) {
        if (entry->d_name[0] == '.') continue;
        char inner[4096];
        snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
        failed = play(inner);
    }
    closedir(folder);
    return failed;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (play(argv[i])) return 1;
    printf("%u inputs\n", n_inputs);
    return n_inputs ? 0 : 1;
}
