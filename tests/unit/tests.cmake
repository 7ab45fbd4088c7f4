# What single unit tests need beyond the library.
target_sources(unit_test_cli_json PRIVATE ${PROJECT_SOURCE_DIR}/apps/cli/json.c)
target_include_directories(unit_test_cli_json PRIVATE ${PROJECT_SOURCE_DIR}/apps)
