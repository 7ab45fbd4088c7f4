# What `make install` installs: program and its second name, header, libraries, pkg-config file,
# man page, and the shipped model that every command uses when no other is named.
set(RL_PC_REQUIRES libpcre2-8 libutf8proc libcjson)
if(URING_FOUND)
  list(APPEND RL_PC_REQUIRES liburing)
endif()
list(JOIN RL_PC_REQUIRES " " RL_PC_REQUIRES)
configure_file(${PROJECT_SOURCE_DIR}/cmake/redlite.pc.in ${PROJECT_BINARY_DIR}/redlite.pc @ONLY)

install(TARGETS redlite_static redlite_shared
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES include/redlite.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${PROJECT_BINARY_DIR}/redlite.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES models/redlite-demo-IQ2_XXS.gguf models/MODEL_CARD.md
        DESTINATION ${CMAKE_INSTALL_DATADIR}/redlite)
if(TARGET redlite)
  install(TARGETS redlite RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(CODE "file(CREATE_LINK redlite \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/redlite-engine\" SYMBOLIC)")
endif()
if(EXISTS ${PROJECT_SOURCE_DIR}/docs/redlite.1)
  install(FILES docs/redlite.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()
