# For tools/templates/make_language_cases.py --compare.
add_executable(jinja_lines ${CMAKE_CURRENT_SOURCE_DIR}/golden/jinja_lines.c)
target_link_libraries(jinja_lines PRIVATE redlite_static)
target_include_directories(jinja_lines PRIVATE ${PROJECT_SOURCE_DIR}/src)

# Products of bytes, which a software device does not choose by itself, on whole models.
if(TARGET golden_test_vulkan)
  foreach(name trace_tiny_a_iq2_xxs trace_tiny_a_q2_k trace_tiny_a_mix trace_tiny_b_iq2_xxs trace_tiny_s_q8_0 one_submission_per_token)
    set(test golden.vulkan_bytes.${name})
    add_test(NAME ${test} COMMAND golden_test_vulkan vulkan.${name})
    set_tests_properties(${test} PROPERTIES LABELS golden TIMEOUT 600 SKIP_RETURN_CODE 77
      ENVIRONMENT "RL_VULKAN_BYTES=1")
  endforeach()
  # Linked stages, which a software device does not choose either: whole tokens, halted and resumed ones.
  foreach(name vulkan.one_submission_per_token vulkan.one_submission_per_sampled_token vulkan.tiny_s_q8_0)
    list(APPEND linked golden_test_vulkan ${name})
  endforeach()
  list(APPEND linked golden_test_sampled sampled.every_way_vulkan)
  while(linked)
    list(POP_FRONT linked program name)
    add_test(NAME golden.linked.${name} COMMAND ${program} ${name})
    set_tests_properties(golden.linked.${name} PROPERTIES LABELS golden TIMEOUT 600 SKIP_RETURN_CODE 77
      ENVIRONMENT "RL_VULKAN_LINKS=1;ASAN_OPTIONS=detect_leaks=0")
  endwhile()
endif()
