# For tools/templates/make_language_cases.py --compare.
add_executable(jinja_lines ${CMAKE_CURRENT_SOURCE_DIR}/golden/jinja_lines.c)
target_link_libraries(jinja_lines PRIVATE redlite_static)
target_include_directories(jinja_lines PRIVATE ${PROJECT_SOURCE_DIR}/src)
