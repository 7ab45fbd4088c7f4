# Runs PROGRAM --list and writes one add_test() line per test to OUT.
execute_process(COMMAND ${PROGRAM} --list OUTPUT_VARIABLE names RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${PROGRAM} --list failed: ${result}")
endif()
string(REPLACE "\n" ";" names "${names}")
set(text "")
foreach(name ${names})
  if(name)
    string(APPEND text "add_test([[${FOLDER}.${name}]] [[${PROGRAM}]] [[${name}]])\n"
      "set_tests_properties([[${FOLDER}.${name}]] PROPERTIES SKIP_RETURN_CODE 77 LABELS ${FOLDER} TIMEOUT 600)\n")
  endif()
endforeach()
file(WRITE ${OUT} "${text}")
