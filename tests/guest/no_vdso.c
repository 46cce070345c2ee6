/* Loaded before a program: hides the functions of the kernel in the memory of programs (vdso(7)).
 * Those of User-Mode Linux lack getcpu, without which rustix ends the program. */
#include <sys/auxv.h>
#include <sys/mman.h>

__attribute__((constructor)) static void hide(void)
{
    char *header = (char *)getauxval(AT_SYSINFO_EHDR);
    if (header && !mprotect(header, 4096, PROT_READ | PROT_WRITE | PROT_EXEC))
        header[0] = 0;
}
