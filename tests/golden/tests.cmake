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
endif()
