# Stages must not allocate: counted by support/fault.c in front of the allocator.
target_sources(kernel_test_cpu_stages PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/support/fault.c)
foreach(name malloc calloc realloc aligned_alloc posix_memalign strdup strndup free pread pread64 __pread_chk)
  target_link_options(kernel_test_cpu_stages PRIVATE "LINKER:--wrap=${name}")
endforeach()

# The kernels of the Vulkan backend once more, with the lanes of the software device set to 4, 8, 16,
# and every shader through the translator that Apple GPUs depend on.
get_property(RL_SPIRV_FILES GLOBAL PROPERTY RL_SPIRV_FILES)
if(RL_SPIRV_FILES)
  foreach(file ${RL_TEST_FILES})
    get_filename_component(name ${file} NAME_WE)
    if(name MATCHES "^test_vulkan_")
      rl_list_tests(kernel_${name} kernel kernel.lanes_4 LP_NATIVE_VECTOR_WIDTH=128)
      rl_list_tests(kernel_${name} kernel kernel.lanes_16 LP_NATIVE_VECTOR_WIDTH=512)
    endif()
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
