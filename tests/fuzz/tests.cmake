# Fuzz targets: fuzz_NAME.c defines LLVMFuzzerTestOneInput; NAME/ in corpus.tar.gz holds its saved
# inputs. They are hundreds of files of a few bytes, hence the archive (tools/fuzz_corpus packs it); it
# is unpacked into tests/fuzz-corpus/ of the build folder.
#
# rl_add_fuzzer(NAME [FOLDER...]) (further folders with inputs may follow) always makes the program fuzz_NAME_replay and the ctest entry
# fuzz.NAME.corpus, which plays the saved inputs. With -DRL_FUZZ=ON (clang; a build folder of its
# own) it also makes the libFuzzer program fuzz_NAME and the entry fuzz.NAME.short, which starts
# from the corpus and runs RL_FUZZ_SECONDS. The library is then instrumented as a whole.
set(RL_FUZZ_SECONDS 30 CACHE STRING "how long each fuzz.NAME.short runs")
set(RL_FUZZ_CORPUS ${CMAKE_CURRENT_BINARY_DIR}/fuzz-corpus)
set(RL_FUZZ_ARCHIVE ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/corpus.tar.gz)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${RL_FUZZ_ARCHIVE})
file(REMOVE_RECURSE ${RL_FUZZ_CORPUS})
file(ARCHIVE_EXTRACT INPUT ${RL_FUZZ_ARCHIVE} DESTINATION ${RL_FUZZ_CORPUS})
if(RL_FUZZ)
  if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "RL_FUZZ needs clang: cmake -DCMAKE_C_COMPILER=clang -DRL_FUZZ=ON")
  endif()
  set(RL_FUZZ_FLAGS -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -g)
  target_compile_options(redlite_objects PRIVATE -fsanitize=fuzzer-no-link ${RL_FUZZ_FLAGS})
  target_link_options(rl_dependencies INTERFACE -fsanitize=address,undefined)
  target_link_options(redlite_shared INTERFACE -fsanitize=address,undefined) # what uses it, too
  # No target computes anything on the cpu backend, and these take minutes with sanitizers.
  file(GLOB RL_FUZZ_PLAIN ${PROJECT_SOURCE_DIR}/src/backend/cpu/cpu_stages_*.c
       ${PROJECT_SOURCE_DIR}/src/backend/cpu/cpu_kernels_*.c)
  set_property(SOURCE ${RL_FUZZ_PLAIN} TARGET_DIRECTORY redlite_objects APPEND PROPERTY
               COMPILE_OPTIONS -fno-sanitize=all -fno-sanitize=fuzzer-no-link)
endif()

function(rl_add_fuzzer name)
  set(source ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/fuzz_${name}.c)
  add_executable(fuzz_${name}_replay ${source} ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/replay.c)
  target_link_libraries(fuzz_${name}_replay PRIVATE rl_test_support)
  add_test(NAME fuzz.${name}.corpus COMMAND fuzz_${name}_replay ${RL_FUZZ_CORPUS}/${name} ${ARGN})
  set_tests_properties(fuzz.${name}.corpus PROPERTIES LABELS fuzz TIMEOUT 300)
  if(RL_FUZZ)
    add_executable(fuzz_${name} ${source})
    target_compile_options(fuzz_${name} PRIVATE -fsanitize=fuzzer ${RL_FUZZ_FLAGS})
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer,address,undefined)
    target_link_libraries(fuzz_${name} PRIVATE rl_test_support)
    set(found ${CMAKE_CURRENT_BINARY_DIR}/fuzz-found/${name})
    file(MAKE_DIRECTORY ${found}/corpus)
    add_test(NAME fuzz.${name}.short
      COMMAND fuzz_${name} -max_total_time=${RL_FUZZ_SECONDS} -timeout=25 -rss_limit_mb=2048
              -artifact_prefix=${found}/ ${found}/corpus ${RL_FUZZ_CORPUS}/${name} ${ARGN})
    math(EXPR limit "${RL_FUZZ_SECONDS} + 300")
    set_tests_properties(fuzz.${name}.short PROPERTIES LABELS fuzz TIMEOUT ${limit})
  endif()
endfunction()

set(RL_FUZZ_MORE_gguf ${CMAKE_CURRENT_SOURCE_DIR}/fixtures/bad-gguf)

file(GLOB RL_FUZZ_FILES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/fuzz_*.c)
foreach(file ${RL_FUZZ_FILES})
  get_filename_component(name ${file} NAME_WE)
  string(REPLACE fuzz_ "" name ${name})
  rl_add_fuzzer(${name} ${RL_FUZZ_MORE_${name}})
endforeach()

# What the commands of the program read is the program's, not the library's.
foreach(program fuzz_cli_json_replay fuzz_cli_json)
  if(TARGET ${program})
    target_sources(${program} PRIVATE ${PROJECT_SOURCE_DIR}/apps/cli/json.c
      ${PROJECT_SOURCE_DIR}/apps/cli/conversation.c ${PROJECT_SOURCE_DIR}/apps/cli/out_file.c)
    target_include_directories(${program} PRIVATE ${PROJECT_SOURCE_DIR}/apps)
  endif()
endforeach()
