/* vulkan_guard.h - stands between the Vulkan backend and its driver: counts every call that can
 * fail, makes the n-th one fail, and knows every object that exists.
 *
 * The driver below may be the machine's own or the pretended one of vulkan_fake.h. A program that
 * uses the guard is linked with --wrap for rl_vk_api_load and its two companions (fault/tests.cmake),
 * so that every table of Vulkan functions in the process goes through here, however it comes to be
 * filled: by an engine, by the public interface, by a list of devices.
 *
 * Which error a function may report is Vulkan's word (the "Return Codes" of each function). A call
 * that may not report the wanted one does the nearest thing: it reports host memory instead of device
 * memory; and a device can be lost at any call, but only calls that may say so do, from then on.
 *
 * What is wrong whatever the outcome (an object destroyed twice, or used after that; a device
 * destroyed before its objects) becomes a complaint, which the test asks for at the end.
 *
 * Threads: calls from any; arming and asking by one. One device at a time. */
#ifndef RL_TESTS_SUPPORT_VULKAN_GUARD_H
#define RL_TESTS_SUPPORT_VULKAN_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/vulkan/vk_api.h"

/* From now on tables are guarded; `below` replaces the machine's driver, NULL keeps it. */
void rl_guard_install(const rl_vk_hook *below);

/* Counts from zero; call number `nth` (0-based) from now on fails with `result`, once. A lost device
 * stays lost until it is destroyed. VK_SUCCESS: only counts. */
void rl_guard_arm(uint64_t nth, VkResult result);
/* As above, but that call and every one after it fail, except those that wait or signal: a machine
 * that cannot even do that leaves nothing that a program could do right. */
void rl_guard_arm_from(uint64_t nth, VkResult result);
/* Ends it. True when a call was made to fail. */
bool rl_guard_disarm(void);
/* Calls counted since the last arming, and the name of the one that failed first ("" : none did). */
uint64_t rl_guard_calls(void);
const char *rl_guard_struck(void);

/* Objects that exist now. */
uint32_t rl_guard_live(void);
/* The first complaint since the program started, or NULL. */
const char *rl_guard_complaint(void);
/* For the pretended driver, which knows more; and which has to know when its device was lost. */
void rl_guard_when_lost(void (*tell)(void));
void rl_guard_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
