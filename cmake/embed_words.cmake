# Writes the 32-bit little-endian words of IN as a comma separated C list to OUT.
file(READ ${IN} hex HEX)
string(REGEX REPLACE "(..)(..)(..)(..)" "0x\\4\\3\\2\\1," words "${hex}")
string(REGEX REPLACE "(0x........,0x........,0x........,0x........,0x........,0x........,0x........,0x........,)" "\\1\n" words "${words}")
file(WRITE ${OUT} "${words}\n")
