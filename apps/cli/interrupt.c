/* interrupt.c - Ctrl-C as a number that long work looks at. */
#include "cli.h"

#include <signal.h>
#include <unistd.h>

static volatile sig_atomic_t interrupts;

static void count_interrupt(int signal_number)
{
    (void)signal_number;
    interrupts = interrupts + 1;
    if (interrupts >= 3) _exit(CLI_INTERRUPTED); /* the work does not look: end it here */
}

void cli_catch_interrupts(void)
{
    /* No SA_RESTART: a read that waits for input has to return. */
    struct sigaction action = { .sa_handler = count_interrupt };
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
}

unsigned cli_interrupts(void)
{
    return (unsigned)interrupts;
}

void cli_forget_interrupts(void)
{
    interrupts = 0;
}
