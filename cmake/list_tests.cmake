# Runs PROGRAM --list and writes one add_test() line per test to OUT. A test whose name ends in
# _long carries the label "long" in place of its folder's: only `make test-long` plays it. PREFIX is what
# names begin with, FOLDER the label, ENVIRONMENT (may be empty) one NAME=VALUE for all.
execute_process(COMMAND ${PROGRAM} --list OUTPUT_VARIABLE names RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${PROGRAM} --list failed: ${result}")
endif()
string(REPLACE "\n" ";" names "${names}")
set(text "")
foreach(name ${names})
  if(name)
    set(label ${FOLDER})
    set(timeout 600) # a hang must not eat the time of all others
    if(name MATCHES "_long$")
      set(label long)
      set(timeout 14400)
    endif()
    # A Vulkan driver is unloaded before the leak check of AddressSanitizer, which then cannot tell
    # what the driver leaked from what we did. The program looks for devices in most commands.
    set(environment "${ENVIRONMENT}")
    if(FOLDER STREQUAL "e2e" OR name MATCHES "vulkan")
      list(APPEND environment ASAN_OPTIONS=detect_leaks=0)
    endif()
    string(APPEND text "add_test([[${PREFIX}.${name}]] [[${PROGRAM}]] [[${name}]])\n"
      "set_tests_properties([[${PREFIX}.${name}]] PROPERTIES SKIP_RETURN_CODE 77 LABELS ${label} TIMEOUT ${timeout} ENVIRONMENT [[${environment}]])\n")
  endif()
endforeach()
file(WRITE ${OUT} "${text}")
