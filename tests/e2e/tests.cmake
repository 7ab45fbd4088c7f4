# The program as a user meets it: each test_*.c here drives build/redlite.
file(GLOB RL_E2E_FILES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/e2e/test_*.c)
rl_add_tests(e2e ${RL_E2E_FILES})
foreach(file ${RL_E2E_FILES})
  get_filename_component(name ${file} NAME_WE)
  target_sources(e2e_${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/support/process.c)
  target_link_libraries(e2e_${name} PRIVATE util)
  add_dependencies(e2e_${name} redlite)
endforeach()

add_test(NAME tree.include_directions COMMAND ${PROJECT_SOURCE_DIR}/tools/include_graph)
