/* Runs the test that the argument names; without one, lists them. */
#include <stdio.h>
#include <string.h>

#define TESTS(TEST)                                       \
    TEST(every_function_on_memory)                        \
    TEST(every_function_on_a_directory)                   \
    TEST(every_function_on_a_server)                      \
    TEST(progress_fills_what_both_sides_know)             \
    TEST(journals_are_recovered)                          \
    TEST(null_is_refused_everywhere)                      \
    TEST(options_are_refused_where_they_do_not_belong)    \
    TEST(errors_say_what_happened)                        \
    TEST(a_failed_listing_has_no_end)                     \
    TEST(a_corrupt_read_gives_no_last_byte)               \
    TEST(cancelled_while_it_waits_for_memory)             \
    TEST(cancelled_while_it_finishes)                     \
    TEST(cancelled_while_it_publishes)                    \
    TEST(cancelled_while_it_aborts)                       \
    TEST(cancelled_while_it_reads)                        \
    TEST(asynchronous_calls_are_cancelled)                \
    TEST(a_forked_child_is_inert)                         \
    TEST(a_forked_child_gives_up_the_journals)            \
    TEST(panics_end_at_the_border)                        \
    TEST(handles_are_freed_during_asynchronous_calls)     \
    TEST(callbacks_call_what_does_not_block)              \
    TEST(a_second_call_at_the_same_moment_is_refused)     \
    TEST(a_closed_socket_raises_no_signal)                \
    TEST(a_sigpipe_of_the_library_ends_no_program)        \
    TEST(a_sigpipe_that_another_took_is_not_waited_for)   \
    TEST(a_thousand_writers_share_16_mib)                 \
    TEST(step_prepare)                                    \
    TEST(step_commit)                                     \
    TEST(step_persist)                                    \
    TEST(step_resume)                                     \
    TEST(step_exit_with_open_writers)                     \
    TEST(step_call_in_an_exit_handler)                    \
    TEST(step_exit_in_a_callback)

#define DECLARE(name) void name(void);
TESTS(DECLARE)

#define ENTRY(name) {#name, name},
static const struct {
    const char *name;
    void (*run)(void);
} tests[] = {TESTS(ENTRY)};

int main(int count, char **arguments) {
    size_t i;
    for (i = 0; i < sizeof tests / sizeof tests[0]; i++) {
        if (count < 2) {
            puts(tests[i].name);
        } else if (strcmp(arguments[1], tests[i].name) == 0) {
            tests[i].run();
            return 0;
        }
    }
    return count < 2 ? 0 : 2;
}
