# The program as a user meets it: each test_*.c here drives build/redlite.
file(GLOB RL_E2E_FILES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/e2e/test_*.c)
rl_add_tests(e2e ${RL_E2E_FILES})
foreach(file ${RL_E2E_FILES})
  get_filename_component(name ${file} NAME_WE)
  add_dependencies(e2e_${name} redlite)
endforeach()

add_test(NAME tree.include_directions COMMAND ${PROJECT_SOURCE_DIR}/tools/include_graph)

# The numbers of a model with three attention layers, against an independent program.
find_program(RL_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH)
if(RL_PYTHON)
  foreach(pair oracle:1e-5 cpu:1e-4)
    string(REPLACE ":" ";" pair ${pair})
    list(GET pair 0 backend)
    list(GET pair 1 limit)
    add_test(NAME e2e.reference.${backend} COMMAND ${RL_PYTHON}
      ${CMAKE_CURRENT_SOURCE_DIR}/e2e/against_reference.py $<TARGET_FILE:redlite>
      ${PROJECT_SOURCE_DIR}/tools/ref_qwen3next.py ${CMAKE_CURRENT_BINARY_DIR} ${backend} ${limit})
    set_tests_properties(e2e.reference.${backend} PROPERTIES SKIP_RETURN_CODE 77 LABELS e2e
      ENVIRONMENT "RL_CPU=exact")
  endforeach()
endif()

# Only with make test-long.
add_test(NAME e2e.synth.full_size COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/e2e/full_size.sh
  $<TARGET_FILE:redlite> ${CMAKE_CURRENT_BINARY_DIR})
set_tests_properties(e2e.synth.full_size PROPERTIES SKIP_RETURN_CODE 77 LABELS "e2e;long" TIMEOUT 3600
  RUN_SERIAL ON)

# Not with sanitizers or coverage: a plain C compiler links against the installed library.
if(NOT RL_SANITIZE AND NOT RL_COVERAGE AND NOT RL_FUZZ)
  add_test(NAME e2e.install.works_from_its_prefix
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/e2e/install.sh ${PROJECT_BINARY_DIR} ${CMAKE_CURRENT_BINARY_DIR}
            ${CMAKE_C_COMPILER})
  set_tests_properties(e2e.install.works_from_its_prefix PROPERTIES LABELS e2e TIMEOUT 300)
endif()

# Sanitizers take memory of their own.
if(NOT RL_SANITIZE)
  add_test(NAME e2e.memory.control_group
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/e2e/control_group.sh $<TARGET_FILE:redlite> ${CMAKE_CURRENT_BINARY_DIR})
  set_tests_properties(e2e.memory.control_group PROPERTIES LABELS e2e TIMEOUT 600 SKIP_RETURN_CODE 77)
endif()

# The portable kernels on an emulated machine that has nothing else.
if(NOT RL_SANITIZE)
  add_test(NAME e2e.old_processor
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/e2e/old_processor.sh $<TARGET_FILE:redlite>
            $<TARGET_FILE:kernel_test_cpu_kernels>)
  set_tests_properties(e2e.old_processor PROPERTIES LABELS e2e TIMEOUT 600 SKIP_RETURN_CODE 77)
endif()
