/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * dlsym and dlvsym for x86-64. They ask urxe_dl_serve(handle, name, version or NULL); what it finds
 * is returned, and for NULL the next definition is entered by a jump, so that it sees our caller's
 * return address on the stack. Three pushes keep the stack aligned to 16 bytes for the call.
 */
#ifdef __x86_64__

	.macro	hook name, next, versioned
	.globl	\name
	.type	\name, @function
\name:
	.cfi_startproc
	endbr64
	push	%rdi
	.cfi_adjust_cfa_offset 8
	push	%rsi
	.cfi_adjust_cfa_offset 8
	push	%rdx
	.cfi_adjust_cfa_offset 8
	.if	\versioned == 0
	xor	%edx, %edx
	.endif
	call	urxe_dl_serve
	pop	%rdx
	.cfi_adjust_cfa_offset -8
	pop	%rsi
	.cfi_adjust_cfa_offset -8
	pop	%rdi
	.cfi_adjust_cfa_offset -8
	test	%rax, %rax
	jnz	1f
	jmp	*\next(%rip)
1:	ret
	.cfi_endproc
	.size	\name, . - \name
	.endm

	.text
	.hidden	urxe_dl_serve
	.hidden	urxe_next_dlsym
	.hidden	urxe_next_dlvsym
	hook	dlsym, urxe_next_dlsym, 0
	hook	dlvsym, urxe_next_dlvsym, 1

#endif
	.section .note.GNU-stack, "", @progbits
