# Stages must not allocate: counted by support/fault.c in front of the allocator.
target_sources(kernel_test_cpu_stages PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/support/fault.c)
foreach(name malloc calloc realloc aligned_alloc posix_memalign strdup strndup free pread pread64 __pread_chk)
  target_link_options(kernel_test_cpu_stages PRIVATE "LINKER:--wrap=${name}")
endforeach()

# The kernels of the Vulkan backend once more, with the lanes of the software device set to 4, 8, 16,
# and every shader through the translator that Apple GPUs depend on.
get_property(RL_SPIRV_FILES GLOBAL PROPERTY RL_SPIRV_FILES)
if(RL_SPIRV_FILES)
  foreach(bits 128 512)
    foreach(name matvec/matvec_f32 matvec/matvec_q4_k matvec/matvec_iq1_m matvec/matvec_bytes_q4_k
        moe/experts_odd_shapes top/top_ties router/router_sizes router/router_again_and_again)
      string(REPLACE "/" ";" parts ${name})
      list(GET parts 0 program)
      list(GET parts 1 name)
      set(test kernel.vulkan_lanes.${name}_width_${bits})
      add_test(NAME ${test} COMMAND kernel_test_vulkan_${program} vulkan.${name})
      set_tests_properties(${test} PROPERTIES LABELS kernel TIMEOUT 600 SKIP_RETURN_CODE 77
        ENVIRONMENT "LP_NATIVE_VECTOR_WIDTH=${bits}")
    endforeach()
  endforeach()
  find_program(RL_SPIRV_CROSS spirv-cross)
  if(RL_SPIRV_CROSS)
    foreach(file ${RL_SPIRV_FILES})
      get_filename_component(name ${file} NAME_WE)
      add_test(NAME kernel.shader_to_metal.${name}
        COMMAND ${RL_SPIRV_CROSS} --msl --msl-version 30000 --output ${file}.metal ${file})
      set_tests_properties(kernel.shader_to_metal.${name} PROPERTIES LABELS kernel)
    endforeach()
  endif()
endif()
