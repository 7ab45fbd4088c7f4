# Every program here is linked with support/fault.c in front of the allocator and of pread.
set(RL_FAULT_LINK)
foreach(name malloc calloc realloc aligned_alloc posix_memalign strdup strndup free pread pread64 __pread_chk)
  list(APPEND RL_FAULT_LINK "LINKER:--wrap=${name}")
endforeach()
foreach(file ${RL_TEST_FILES})
  get_filename_component(name ${file} NAME_WE)
  target_sources(fault_${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/support/fault.c)
  target_link_options(fault_${name} PRIVATE ${RL_FAULT_LINK})
endforeach()
if(URING_FOUND)
  target_link_options(fault_test_experts PRIVATE LINKER:--wrap=io_uring_submit)
endif()
target_link_options(fault_test_gguf PRIVATE LINKER:--wrap=write LINKER:--wrap=rename)
# These put support/vulkan_guard.c in front of the table of Vulkan functions.
set(RL_GUARD_LINK LINKER:--wrap=rl_vk_api_load LINKER:--wrap=rl_vk_api_load_instance
    LINKER:--wrap=rl_vk_api_load_device)
foreach(program fault_test_gpu fault_test_gpu_auto fault_test_gpu_driver)
  target_link_options(${program} PRIVATE ${RL_GUARD_LINK})
endforeach()

# The program once more, on a machine whose GPU is pretended and fails when it is told to.
if(TARGET redlite AND TARGET redlite_objects)
  get_target_property(sources redlite SOURCES)
  add_executable(redlite_pretending ${sources} ${CMAKE_CURRENT_SOURCE_DIR}/fault/pretending.c)
  get_target_property(folders redlite INCLUDE_DIRECTORIES)
  get_target_property(definitions redlite COMPILE_DEFINITIONS)
  list(FILTER definitions EXCLUDE REGEX LIBEDIT) # nobody types
  target_include_directories(redlite_pretending PRIVATE ${folders})
  target_compile_definitions(redlite_pretending PRIVATE ${definitions})
  target_link_libraries(redlite_pretending PRIVATE rl_test_support)
  target_link_options(redlite_pretending PRIVATE ${RL_GUARD_LINK})
  add_dependencies(fault_test_gpu_auto redlite_pretending)
  target_compile_definitions(fault_test_gpu_auto PRIVATE
    RL_TEST_PRETENDING="$<TARGET_FILE:redlite_pretending>")
endif()
