# The libraries that the product links. Required ones stop the configuration with a clear message;
# optional ones define RL_HAVE_... and are listed in the summary.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)

add_library(rl_dependencies INTERFACE)
target_link_libraries(rl_dependencies INTERFACE Threads::Threads m ${CMAKE_DL_LIBS})

pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(CJSON REQUIRED IMPORTED_TARGET libcjson)
pkg_check_modules(URING IMPORTED_TARGET liburing)
target_link_libraries(rl_dependencies INTERFACE PkgConfig::PCRE2 PkgConfig::UTF8PROC PkgConfig::CJSON)
if(URING_FOUND)
  target_link_libraries(rl_dependencies INTERFACE PkgConfig::URING)
  target_compile_definitions(rl_dependencies INTERFACE RL_HAVE_URING=1)
endif()
message(STATUS "io_uring: ${URING_FOUND}")
